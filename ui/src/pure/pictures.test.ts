import { expect, test } from "vitest";
import { pictures } from "./pictures";

test("pictures are found in every provider's shape, and nothing that could run", () => {
  const png = { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } };
  const chat = { type: "image_url", image_url: { url: "data:image/jpeg;base64,/9j/4AAQ" } };
  const gemini = { inlineData: { mimeType: "image/webp", data: "UklGRg==" } };
  const all = pictures(JSON.stringify({ messages: [{ content: [png, chat, gemini] }] }));
  expect(all.map((one) => one.type)).toEqual(["image/png", "image/jpeg", "image/webp"]);
  const svg = { source: { media_type: "image/svg+xml", data: "PHN2Zz4=" } };
  const remote = { image_url: { url: "http://canary.invalid/x.png" } };
  const broken = { source: { media_type: "image/png", data: '"><script>' } };
  expect(pictures(JSON.stringify([svg, remote, broken]))).toEqual([]);
  expect(pictures("no JSON")).toEqual([]);
});
