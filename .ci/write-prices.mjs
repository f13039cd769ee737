// Writes the prices of the providers that we know, out of the table of the genai-prices crate: `make prices` runs it when that crate has
// a new version. What the crate has beside them would cost every command that prices something 40 ms.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const metadata = execFileSync('cargo', ['metadata', '--format-version', '1', '--locked'], { maxBuffer: 1 << 28 });
const { packages } = JSON.parse(metadata);
const crate = packages.find(({ name }) => name === 'genai-prices');
const table = JSON.parse(readFileSync(join(dirname(crate.manifest_path), 'data', 'prices.json'), 'utf8'));

for (const id of ['anthropic', 'openai', 'google']) {
  const { name, api_pattern, fallback_model_providers = [], models } = table.find((provider) => provider.id === id);
  const priced = models.map(({ id, match, context_window, prices, price_variants }) =>
    JSON.stringify({ id, match, context_window, prices, price_variants }));
  const head = JSON.stringify({ id, name, api_pattern, fallback_model_providers });
  writeFileSync(`crates/ropewalk-core/src/cost/${id}.json`, `${head.slice(0, -1)},"models":[\n${priced.join(',\n')}\n]}\n`);
}
