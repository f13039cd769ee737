import { defineConfig } from "vitest/config";

// Nothing here is measured in time: a loaded machine gets the patience it needs.
const PATIENCE_MS = 180_000;

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    fileParallelism: false,
    testTimeout: PATIENCE_MS,
    hookTimeout: PATIENCE_MS,
    expect: { poll: { timeout: PATIENCE_MS / 3, interval: 50 } },
    reporters: ["default", "./tests/total.ts"],
  },
});
