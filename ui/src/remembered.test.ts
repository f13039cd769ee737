import { beforeEach, expect, test, vi } from "vitest";
import { remembered, Turned } from "./remembered";

const kept = new Map<string, string>();
beforeEach(() => {
  kept.clear();
  const sessionStorage = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) };
  vi.stubGlobal("window", { sessionStorage });
});

test("what was turned stays turned in the next page, and turns back", () => {
  expect(new Turned("opened").turn("a")).toBe(true);
  const next = new Turned("opened");
  expect([next.has("a"), next.has("b")]).toEqual([true, false]);
  expect(next.turn("a")).toBe(false);
  expect(new Turned("opened").has("a")).toBe(false);
});

test("what somebody else wrote is nothing, and the oldest is forgotten first", () => {
  for (const odd of ["{", "3", '{"a":1}', "[1,null]"]) {
    kept.set("ropewalk.opened", odd);
    expect(new Turned("opened").has("1")).toBe(false);
  }
  const many = new Turned("opened");
  for (let at = 0; at < 600; at += 1) many.turn(`n${at}`);
  expect([many.has("n0"), many.has("n599")]).toEqual([false, true]);
  expect((JSON.parse(remembered("opened") ?? "[]") as string[]).length).toBe(500);
});
