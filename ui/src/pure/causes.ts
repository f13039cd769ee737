/** What broke the prompt cache, in words that answer "what did?". */

import type { Cause } from "../api";

export const CAUSE_IN_WORDS: Record<Cause, string> = {
  below_minimum: "below the minimum size",
  breakpoint_missing: "no cache_control",
  other_model: "another model",
  other_beta: "another beta header",
  other_cache_key: "another cache key",
  expired: "expired",
  tools: "the tool list changed",
  system: "the system prompt changed",
  settings: "another tool choice or setting",
  message: "a message changed",
  breakpoint_moved: "cache_control moved",
  provider: "nothing that was sent",
};
