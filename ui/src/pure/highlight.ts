/** Code in a few colours: comments, texts, numbers and words that most languages share. Enough to read by, and small. */

export interface Piece {
  is: "plain" | "comment" | "text" | "number" | "word";
  text: string;
}

/** Above this, code is shown as it is. */
export const HIGHLIGHT_CHARS_MAX = 50_000;

const WORDS = new Set(
  (
    "as async await begin bool break case catch char class const continue def default defer delete do double elif else end enum except export extends " +
    "false final finally float fn for from func function go if impl implements import in int interface is lambda let long loop match mod module mut " +
    "namespace new nil none not null or and package pass private protected pub public raise ref return select self static str string struct super switch " +
    "then this throw trait true try type undefined unless unsafe use using val var void where while with yield"
  ).split(" "),
);

/** Languages whose comments begin with `#`; elsewhere that is a colour, a heading or a macro. */
const HASH = new Set(["bash", "sh", "shell", "zsh", "python", "py", "ruby", "rb", "yaml", "yml", "toml", "make", "makefile", "dockerfile", "perl", "r", "console"]);
const DASHES = new Set(["sql", "lua", "haskell", "hs", "ada", "elm"]);
/** Nothing in them is code. */
const PLAIN = new Set(["text", "txt", "plain", "markdown", "md", "diff", "patch", "log"]);

export function highlight(code: string, language: string): Piece[] {
  const name = language.trim().toLowerCase();
  if (code.length > HIGHLIGHT_CHARS_MAX || PLAIN.has(name)) return [{ is: "plain", text: code }];
  const line = HASH.has(name) ? "#" : DASHES.has(name) ? "--" : "\\/\\/";
  const pattern = new RegExp(
    `(${line}[^\\n]*|\\/\\*[\\s\\S]*?(?:\\*\\/|$))` +
      '|("(?:[^"\\\\\\n]|\\\\.)*"|\'(?:[^\'\\\\\\n]|\\\\.)*\'|`(?:[^`\\\\]|\\\\.)*`)' +
      "|(\\b\\d[\\w.]*\\b)|([A-Za-z_]\\w*)",
    "g",
  );
  const pieces: Piece[] = [];
  const add = (is: Piece["is"], text: string) => {
    const last = pieces.at(-1);
    if (last?.is === is) last.text += text;
    else if (text !== "") pieces.push({ is, text });
  };
  let done = 0;
  for (const found of code.matchAll(pattern)) {
    add("plain", code.slice(done, found.index));
    const [all, comment, text, number] = found;
    const is = comment !== undefined ? "comment" : text !== undefined ? "text" : number !== undefined ? "number" : WORDS.has(all) ? "word" : "plain";
    add(is, all);
    done = found.index + all.length;
  }
  add("plain", code.slice(done));
  return pieces;
}
