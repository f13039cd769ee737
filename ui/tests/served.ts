/** A real `ropewalk serve` over recorded traffic, and a browser in front of it. */

import { spawn, execFile, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { Upstream } from "./upstream";

const run = promisify(execFile);

const HERE = resolve(import.meta.dirname, "..");
const PROGRAM = process.env.ROPEWALK_BIN ?? resolve(HERE, "../target/debug/ropewalk");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const PICTURES = join(HERE, "test-results");
export const PATIENCE_MS = 60_000;

export interface Look {
  width?: number;
  height?: number;
  theme?: "light" | "dark";
}

/** A page with everything that it complained about and everything that it asked others for. */
export interface Seen {
  page: Page;
  context: BrowserContext;
  complaints: string[];
  outside: string[];
}

export class Served {
  private constructor(
    readonly url: string,
    readonly token: string,
    readonly upstream: Upstream,
    private readonly server: ChildProcess,
    private readonly browser: Browser,
    private readonly folder: string,
  ) {}

  /**
   * `lines` are exchanges of the exchange format, beside the demonstration's and the fixtures'; `logs` are files among the fixtures,
   * `files` others by their names.
   */
  static async start(lines: string[] = [], logs: string[] = [], files: Record<string, string> = {}): Promise<Served> {
    if (!existsSync(PROGRAM)) throw new Error(`${PROGRAM} is missing: build it first, or name it in ROPEWALK_BIN`);
    const folder = mkdtempSync(join(tmpdir(), "ropewalk-ui-"));
    const data = join(folder, "data");
    const ropewalk = (...rest: string[]) => run(PROGRAM, ["--data", data, ...rest], { maxBuffer: 1 << 26 });
    await ropewalk("demo");
    const fixtures = resolve(HERE, "../fixtures/exchanges");
    await ropewalk("import", fixtures);
    const captures = resolve(HERE, "../../shared/captures");
    if (existsSync(captures)) await ropewalk("import", captures);
    else console.error("skipped: recorded traffic of real clients is not here");
    if (lines.length > 0) {
      const file = join(folder, "lines.exchanges.jsonl");
      writeFileSync(file, `${lines.join("\n")}\n`);
      await ropewalk("import", file);
    }
    for (const log of logs) await ropewalk("import", resolve(HERE, "../fixtures/import", log));
    for (const [name, text] of Object.entries(files)) {
      const file = join(folder, name);
      writeFileSync(file, text);
      await ropewalk("import", file);
    }
    return await Served.over(folder);
  }

  /** Over nothing. */
  static async empty(): Promise<Served> {
    return await Served.over(mkdtempSync(join(tmpdir(), "ropewalk-ui-")));
  }

  private static async over(folder: string): Promise<Served> {
    const data = join(folder, "data");
    const upstream = await Upstream.start();
    const server = spawn(PROGRAM, ["--data", data, "serve", "--listen", "127.0.0.1:0", "--upstream", `anthropic=${upstream.url}`]);
    const url = await greeting(server);
    const token = readFileSync(join(data, "api.token"), "utf8").trim();
    const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
    mkdirSync(PICTURES, { recursive: true });
    return new Served(url, token, upstream, server, browser, folder);
  }

  async stop(): Promise<void> {
    await this.browser.close();
    await this.upstream.stop();
    const ended = new Promise((resolve) => this.server.once("exit", resolve));
    this.server.kill("SIGTERM");
    await ended;
    rmSync(this.folder, { recursive: true, force: true });
  }

  async api<T>(path: string): Promise<T> {
    const answer = await fetch(this.url + path, { headers: { authorization: `Bearer ${this.token}` } });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }

  async post(path: string, body: unknown): Promise<void> {
    const headers = { authorization: `Bearer ${this.token}`, "content-type": "application/json" };
    const answer = await fetch(this.url + path, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  }

  /** A browser that was let in and went to a view. */
  async open(path: string, look: Look = {}): Promise<Seen> {
    const { width = 1280, height = 800, theme = "light" } = look;
    const context = await this.browser.newContext({ viewport: { width, height }, colorScheme: theme });
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: this.url });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    const complaints: string[] = [];
    const outside: string[] = [];
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("request", (request) => {
      if (!request.url().startsWith(`${this.url}/`)) outside.push(request.url());
    });
    const [bare = "", hash] = path.split("#");
    const entry = `${this.url}${bare}${bare.includes("?") ? "&" : "?"}token=${this.token}${hash === undefined ? "" : `#${hash}`}`;
    await page.goto(entry);
    return { page, context, complaints, outside };
  }

  /** A page of nobody. */
  async blank(): Promise<Page> {
    const page = await (await this.browser.newContext()).newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    return page;
  }

  /** A browser without a cookie. */
  async stranger(path: string): Promise<Page> {
    const page = await this.blank();
    await page.goto(this.url + path);
    return page;
  }
}

export async function picture(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: join(PICTURES, `${name}.png`) });
}

/** The address that the server says it listens on. */
function greeting(server: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = "";
    const read = (piece: Buffer) => {
      said += piece.toString();
      const found = /listens on (http:\/\/\S+)/.exec(said)?.[1];
      if (found && said.includes("/?token=")) resolve(found);
    };
    server.stdout?.on("data", read);
    server.stderr?.on("data", read);
    server.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
  });
}
