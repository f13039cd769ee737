import { usePlace } from "../router";

/** Who has no cookie yet: the link that was printed, or the token. The browser leaves with it and comes back without. */
export function Login() {
  const place = usePlace();
  return (
    <div className="state login">
      <h1>This browser is not let in yet</h1>
      <p>
        Open the link that <code>ropewalk serve</code> printed, or paste the token.
      </p>
      <form action={place.path} method="get">
        {[...place.query].map(([name, value]) => (
          <input key={name} type="hidden" name={name} value={value} />
        ))}
        <label>
          Token <input name="token" type="password" required autoComplete="off" />
        </label>
        <button type="submit">Enter</button>
      </form>
      <p className="quiet">
        The token of this installation is in <code>api.token</code> in its data folder; where owners are told apart, it is an owner&apos;s.
      </p>
    </div>
  );
}
