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
      <TokenForm path={place.path} query={place.query} />
      <p className="quiet">
        The token of this installation is in <code>api.token</code> in its data folder; where owners are told apart, it is an owner&apos;s.
      </p>
    </div>
  );
}

/** The browser leaves with the token and comes back without it, to the same page. */
export function TokenForm({ path, query }: { path: string; query: URLSearchParams }) {
  return (
    <form className="token" action={path} method="get">
      {[...query].map(([name, value]) => (
        <input key={name} type="hidden" name={name} value={value} />
      ))}
      <label>
        Token <input name="token" type="password" required autoComplete="off" />
      </label>
      <button type="submit">Enter</button>
    </form>
  );
}
