import { chmodSync, chownSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** An empty folder as a kubelet mounts a volume for `fsGroup: 65532`: root's, with all rights for the group, which new files inherit. */
export function dataFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "sallyport-volume-"));
  chownSync(folder, 0, 65_532);
  chmodSync(folder, 0o2770);
  return folder;
}
