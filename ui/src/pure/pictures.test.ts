import { expect, test } from "vitest";
import { dimensions, pictures } from "./pictures";

/** The beginnings of pictures of 3 times 2. */
const PNG = [0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 3, 0, 0, 0, 2];
const GIF = [0x47, 0x49, 0x46, 0x38, 0x39, 0x61, 3, 0, 2, 0];
const JPEG = [0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xc2, 0, 8, 8, 0, 2, 0, 3, 1];
const webp = (kind: string, ...rest: number[]) => [...Buffer.from(`RIFF\0\0\0\0WEBP${kind}\0\0\0\0`), ...rest, ...new Array<number>(12).fill(0)];
const WEBP = webp("VP8X", 0, 0, 0, 0, 2, 0, 0, 1, 0, 0);
const base64 = (bytes: number[]) => Buffer.from(bytes).toString("base64");

test("pictures are found in every provider's shape, and nothing that could run", () => {
  const png = { type: "image", source: { type: "base64", media_type: "image/png", data: base64(PNG) } };
  const chat = { type: "image_url", image_url: { url: `data:image/jpeg;base64,${base64(JPEG)}` } };
  const gemini = { inlineData: { mimeType: "image/webp", data: base64(WEBP) } };
  const all = pictures(JSON.stringify({ messages: [{ content: [png, chat, gemini] }] }));
  expect(all.map((one) => [one.type, one.width, one.height])).toEqual([
    ["image/png", 3, 2],
    ["image/jpeg", 3, 2],
    ["image/webp", 3, 2],
  ]);
  const svg = { source: { media_type: "image/svg+xml", data: "PHN2Zz4=" } };
  const remote = { image_url: { url: "http://canary.invalid/x.png" } };
  const broken = { source: { media_type: "image/png", data: '"><script>' } };
  const disguised = { source: { media_type: "image/png", data: "PHN2Zz4=" } };
  expect(pictures(JSON.stringify([svg, remote, broken, disguised]))).toEqual([]);
  expect(pictures("no JSON")).toEqual([]);
});

test("a picture that would be enormous once it is decoded is none", () => {
  const sized = (width: number[], height: number[]) => [...PNG.slice(0, 16), ...width, ...height];
  const data = (bytes: number[]) => JSON.stringify({ source: { media_type: "image/png", data: base64(bytes) } });
  expect(pictures(data(sized([0, 0, 16, 0], [0, 0, 16, 0])))).toHaveLength(1);
  expect(pictures(data(sized([0, 0, 255, 255], [0, 0, 255, 255])))).toEqual([]);
});

test.each([
  ["PNG", PNG],
  ["GIF", GIF],
  ["JPEG", JPEG],
  ["WebP", WEBP],
  ["lossy WebP", webp("VP8 ", 0, 0, 0, 0, 0, 0, 3, 0, 2, 0)],
  ["lossless WebP", webp("VP8L", 0x2f, 2, 0x40, 0, 0)],
])("a %s says how large it is, and one that ends too early does not", (_, bytes) => {
  const view = (of: number[]) => new DataView(Uint8Array.from(of).buffer);
  expect(dimensions(view(bytes))).toEqual({ width: 3, height: 2 });
  for (let length = 0; length < 9; length += 1) expect(dimensions(view(bytes.slice(0, length)))).toBeNull();
});
