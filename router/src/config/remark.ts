import { atPlace, formatPath, type Path, type Place } from "@sallyport/config-file";
import type { IdleKey } from "@sallyport/router-config";

/** What there is to say of one setting of the configuration file. */
export interface Remark {
  /** The key, such as `["link", "dialers", 0, "bind"]`; empty for the file as a whole. */
  readonly path: Path;
  readonly text: string;
}

/** Where a key stands in the file that a configuration was read from. */
export interface ConfigSource {
  readonly file: string;
  placeOf(path: Path): Place | undefined;
}

/** `router.yml:12:7: link.dialers[0].bind: …`; without a source the key and the text alone. */
export function formatRemark({ path, text }: Remark, source?: ConfigSource): string {
  if (path.length === 0) return text;
  const words = `${formatPath(path)}: ${text}`;
  return source === undefined ? words : atPlace(words, source.file, source.placeOf(path));
}

/** What there is to say of keys that change nothing. */
export function idleRemarks(keys: readonly IdleKey[]): Remark[] {
  return keys.map(({ path, reason }) => ({ path, text: `without effect: ${reason}` }));
}
