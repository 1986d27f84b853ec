import { X509Certificate } from "node:crypto";
import { type ControllerConfig, readControllerConfigFile } from "@sallyport/controller-config";
import { nameParts } from "@sallyport/wire";
import { sql } from "kysely";
import { TokenKeys } from "../auth/tokens/token-keys.ts";
import { changeNetworkKeys, requireNetworkKeys } from "../certificates/network-keys.ts";
import { removeAllReplicaKeys, replicasBehind } from "../certificates/replica-keys.ts";
import { countFormerLeaves, type FormerLeaves, isNone } from "../certificates/stored-certificates.ts";
import { hostsOf, lifetimes, oidcSettings, secretKeyFile } from "../config/settings.ts";
import type { Db } from "../model/context.ts";
import { endApiSessions } from "../model/session/session-removal.ts";
import { PkiError } from "../pki/issue.ts";
import { anchorsOf, retire, rotate } from "../pki/material.ts";
import { Pki } from "../pki/pki.ts";
import { loggedWrite } from "../store/changes/logged-write.ts";
import type { Store } from "../store/database.ts";
import { KeyVault, loadSecrets, type Secrets } from "../store/secrets.ts";
import type { CommandContext, PkiCommand } from "./command-line.ts";
import { openBeside, readCa } from "./open-beside.ts";

/**
 * `sallyport-controller pki …`: shows, rotates or retires the network's authority. A running controller applies the change within a second.
 * @throws PkiError, StoreError, DatabaseHeldError, ConfigError
 */
export async function pkiCommand(command: PkiCommand, { env, say, log }: CommandContext): Promise<void> {
  const read = await readControllerConfigFile(command.file, env);
  const { config } = read;
  const secrets = await loadSecrets(secretKeyFile(config, command.file), env);
  const store = await openBeside(read, command.file, log);
  try {
    if (command.action === "rotate") await rotateAuthority(command, { config, store, secrets, say });
    if (command.action === "rotate-tokens") await rotateTokenKeys(command, { config, store, secrets, say, log });
    if (command.action === "retire") await retireFormer(command, { store, secrets, say });
    await describe(store, secrets, say);
  } finally {
    await store.close();
  }
}

interface Parts {
  readonly store: Store;
  readonly secrets: Secrets;
  readonly say: (line: string) => void;
}

/** Of the database: the clock of this machine may be another one than those of the controllers. */
function timeOf(store: Pick<Store, "clock">): Date {
  return new Date(store.clock.now());
}

async function rotateAuthority(
  command: Extract<PkiCommand, { action: "rotate" }>,
  { config, store, secrets, say }: Parts & { config: ControllerConfig },
): Promise<void> {
  const imported = command.imported && (await readCa(command.imported));
  const { newKeys } = command;
  const rotation = { hosts: hostsOf(config), lifetimes: lifetimes(config), now: timeOf(store), newKeys, imported };
  await changeNetworkKeys(store, secrets, async (material, trx) => {
    await askForExtensions(trx);
    // Every process makes new ones.
    if (newKeys) await removeAllReplicaKeys(trx, secrets);
    return rotate(material, rotation);
  });
  say("The network has a new root and a new signing CA; the former ones stay trusted until everything is renewed.");
  if (newKeys) {
    say(
      "The controller's own keys are new, too: enrollment tokens are signed again. Hand out only new tokens from now on.",
    );
  }
}

/** Beside a controller that runs, each batch is one short transaction. */
const BATCH = 500;

async function rotateTokenKeys(
  { atOnce }: Extract<PkiCommand, { action: "rotate-tokens" }>,
  { config, store, secrets, say, log }: Parts & { config: ControllerConfig; log: CommandContext["log"] },
): Promise<void> {
  const pki = new Pki(await requireNetworkKeys(new KeyVault(store.db, secrets)), {
    lifetimes: lifetimes(config),
    now: () => timeOf(store),
  });
  const keys = new TokenKeys({
    ...{ store, pki, secrets, log },
    lives: oidcSettings(config.edge.oidc),
    now: () => timeOf(store),
  });
  const { kid, signsFrom } = await keys.rotate({ atOnce });
  if (!atOnce) {
    say(`The key ${kid} is published. It signs tokens from ${signsFrom.toISOString()} on, and every session goes on.`);
    return;
  }
  let ended = 0;
  for (let batch = BATCH; batch === BATCH; ended += batch) {
    // Verifiers refuse their tokens already, because they do not know the key any more.
    const some = sql<boolean>`a.id IN (SELECT id FROM api_session WHERE kind = 'oidc' LIMIT ${BATCH})`;
    batch = (await store.transaction((trx) => endApiSessions(trx, some, { isRevoked: true }))).length;
  }
  say(`The key ${kid} signs tokens now. No token of a former key counts any more; ${ended} logins by OIDC have ended.`);
}

/** Clients learn at their next authentication that they should get a certificate of the new authority. */
async function askForExtensions(trx: Db): Promise<void> {
  await loggedWrite(
    trx,
    sql`WITH asked AS (UPDATE authenticator SET is_extend_requested = true, extend_requested_at = now(), updated_at = now()
      WHERE is_issued_by_network AND NOT is_extend_requested RETURNING id)`,
    { changes: [{ kind: "authenticator", op: "update", of: "asked" }] },
  );
}

async function retireFormer(
  { isForced }: Extract<PkiCommand, { action: "retire" }>,
  { store, secrets, say }: Parts,
): Promise<void> {
  const { former, bridgePem } = await requireNetworkKeys(new KeyVault(store.db, secrets));
  if (former === undefined && bridgePem === undefined) {
    say("There is no former authority: nothing to retire.");
    return;
  }
  if (former !== undefined && !isForced) {
    const leaves = await countFormerLeaves(store.db, former.intermediatePem);
    if (!isNone(leaves)) {
      throw new PkiError(
        `the former authority has issued certificates that are in use (${inWords(leaves)}): their holders would be locked out. Wait until they are renewed, or give --force`,
      );
    }
    const behind = await replicasBehind(store.db, secrets, await requireNetworkKeys(new KeyVault(store.db, secrets)));
    if (behind.length > 0) {
      throw new PkiError(
        `these controllers still present certificates of the former authority: ${behind.join(", ")}. They renew them within seconds when they run; otherwise they leave the set ten minutes after they stopped. Wait, or give --force`,
      );
    }
  }
  await changeNetworkKeys(store, secrets, async (material) => retire(material, false, timeOf(store)));
  say("The former authority is trusted no more.");
}

async function describe(store: Store, secrets: Secrets, say: (line: string) => void): Promise<void> {
  const material = await requireNetworkKeys(new KeyVault(store.db, secrets));
  for (const [place, pem] of anchorsOf(material).entries()) {
    const { subject, validTo, fingerprint256 } = new X509Certificate(pem);
    const name = nameParts(subject).join(", ") || "an authority without a name";
    say(`${place === 0 ? "trusted:" : "        "}  ${name}, until ${validTo}`);
    say(`          SHA-256 ${fingerprint256}`);
  }
  const now = timeOf(store);
  const { rows } = await sql<{ kid: string; signs_from: Date; ends_at: Date | null }>`
    SELECT kid, signs_from, ends_at FROM token_key WHERE ends_at IS NULL OR ends_at > ${now} ORDER BY signs_from`.execute(
    store.db,
  );
  for (const { kid, signs_from, ends_at } of rows) {
    const until = ends_at === null ? "" : `, tokens count until ${ends_at.toISOString()}`;
    say(`token key: ${kid}, signs from ${signs_from.toISOString()}${until}`);
  }
  if (material.former === undefined) return;
  const leaves = await countFormerLeaves(store.db, material.former.intermediatePem);
  say(`in use of the former authority:  ${inWords(leaves)}`);
  const behind = await replicasBehind(store.db, secrets, material);
  if (behind.length > 0) say(`controllers that still present its certificates:  ${behind.join(", ")}`);
}

function inWords({ identities, routers, sessions }: FormerLeaves): string {
  return `certificates of ${identities} identities, ${routers} routers, ${sessions} API sessions`;
}
