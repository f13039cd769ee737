import type { Reporter, TestModule } from "vitest/node";

/** Ends with one line as `cargo test` writes it, which is how all tests of the project are counted. */
export default class Total implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const counts = { passed: 0, failed: errors.length, skipped: 0, pending: 0 };
    for (const module of modules) {
      // A file that cannot be read has no tests, and is a failure.
      if (module.state() === "failed" && module.children.size === 0) counts.failed += 1;
      for (const test of module.children.allTests()) counts[test.result().state] += 1;
    }
    const word = counts.failed === 0 ? "ok" : "FAILED";
    const ignored = counts.skipped + counts.pending;
    console.log(`\ntest result: ${word}. ${counts.passed} passed; ${counts.failed} failed; ${ignored} ignored; 0 measured`);
  }
}
