import { errorText } from "@sallyport/async";
import { formatProblem } from "@sallyport/config-file";
import { loadRouterConfig, type RouterConfig } from "@sallyport/router-config";
import { type Identity, loadIdentity } from "@sallyport/wire";
import { enrolledFiles } from "./enroll.ts";
import { readJournal } from "./enrollment-journal.ts";
import { formatRemark, idleRemarks, type Remark } from "./remark.ts";
import { startProblems } from "./start-rules/rules.ts";

/** What is odd about a configuration, and what keeps a router from starting with it. */
export interface ConfigFindings {
  readonly notes: readonly string[];
  readonly problems: readonly string[];
}

/**
 * Checks a file by the rules of the start, and all that it names on this machine, without changing or opening anything.
 * @throws ConfigError
 */
export async function checkRouter(
  file: string,
  baseDir: string,
  endpointsFileOf: (c: RouterConfig) => string,
): Promise<ConfigFindings> {
  const { config, warnings, idle, placeOf } = await loadRouterConfig(file);
  const endpointsFile = endpointsFileOf(config);
  const notes = warnings.map((warning) => formatProblem(warning, file));
  notes.push(...idleRemarks(idle).map((remark) => formatRemark(remark, { file, placeOf })));
  if (config.csr === undefined) {
    notes.push("without a csr section the router can neither enroll nor renew its certificates");
  }
  const problems: Remark[] = [];
  let identity: Identity | undefined;
  try {
    identity = await loadIdentity(config.identity, baseDir);
    notes.push(`router ${identity.id}, certificate valid until ${identity.leaf.validTo}`);
  } catch (error) {
    const reason = errorText(error);
    if (isMissing(error)) {
      const isPending = await interrupted(config, baseDir, endpointsFile);
      notes.push(
        isPending
          ? `an enrollment was interrupted; finish it with: sallyport-router enroll ${file} --if-needed`
          : `not enrolled yet: ${reason}; enroll it with: sallyport-router enroll ${file} --jwt <file>`,
      );
    } else problems.push({ path: ["identity"], text: reason });
  }
  problems.push(...(await startProblems({ config, identity, baseDir, endpointsFile })));
  if (identity !== undefined && Date.parse(identity.leaf.validTo) <= Date.now()) {
    const text = `the certificate ended on ${identity.leaf.validTo}; enroll the router again`;
    problems.push({ path: ["identity", "cert"], text });
  }
  return { notes, problems: problems.map((problem) => formatRemark(problem, { file, placeOf })) };
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "IDENTITY_UNREADABLE";
}

async function interrupted(config: RouterConfig, baseDir: string, endpointsFile: string): Promise<boolean> {
  try {
    return (await readJournal(enrolledFiles(config, baseDir, endpointsFile))) !== undefined;
  } catch {
    // Values that name no file, or a record that cannot be read: nothing to finish.
    return false;
  }
}
