/** A provider on a real socket whose answers end when a test says so. */

import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

interface Waiting {
  asked: string;
  answer: ServerResponse;
}

export class Upstream {
  private readonly waiting: Waiting[] = [];
  private asked = 0;

  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {}

  static async start(): Promise<Upstream> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const upstream = new Upstream(server, `http://127.0.0.1:${port}`);
    server.on("request", (request, answer) => {
      const pieces: Buffer[] = [];
      request.on("data", (piece: Buffer) => pieces.push(piece));
      request.on("end", () => upstream.begin(Buffer.concat(pieces).toString(), answer));
    });
    return upstream;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private begin(asked: string, answer: ServerResponse): void {
    this.asked += 1;
    answer.writeHead(200, { "content-type": "text/event-stream" });
    const message = { id: `msg_live_${this.asked}`, type: "message", role: "assistant", model: "claude-opus-4-5", content: [] };
    send(answer, { type: "message_start", message: { ...message, usage: { input_tokens: 12, output_tokens: 1 } } });
    this.waiting.push({ asked, answer });
  }

  /** Ends the answer to the request that has this text: with words, and with calls of tools. */
  async finish(having: string, text: string, calls: { id: string; name: string; input: unknown }[] = []): Promise<void> {
    const answer = await this.take(having);
    const blocks = [{ type: "text", text }, ...calls.map((call) => ({ type: "tool_use", ...call }))];
    blocks.forEach((block, index) => {
      const isText = block.type === "text";
      const empty = isText ? { type: "text", text: "" } : { ...block, input: {} };
      send(answer, { type: "content_block_start", index, content_block: empty });
      const delta = "input" in block ? { type: "input_json_delta", partial_json: JSON.stringify(block.input) } : { type: "text_delta", text };
      send(answer, { type: "content_block_delta", index, delta });
      send(answer, { type: "content_block_stop", index });
    });
    const reason = calls.length > 0 ? "tool_use" : "end_turn";
    send(answer, { type: "message_delta", delta: { stop_reason: reason }, usage: { output_tokens: 7 } });
    send(answer, { type: "message_stop" });
    answer.end();
  }

  /** Breaks the answer off. */
  async fail(having: string): Promise<void> {
    (await this.take(having)).destroy();
  }

  private async take(having: string): Promise<ServerResponse> {
    for (;;) {
      const at = this.waiting.findIndex((one) => one.asked.includes(having));
      const [found] = at < 0 ? [] : this.waiting.splice(at, 1);
      if (found) return found.answer;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

function send(answer: ServerResponse, event: { type: string; [member: string]: unknown }): void {
  answer.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
}
