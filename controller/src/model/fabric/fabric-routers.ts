import { CertificateError, fingerprint } from "@sallyport/wire";
import { type RawBuilder, sql } from "kysely";
import type { FabricModel, RouterRecord } from "../../fabric/ports.ts";
import { SIGNED_TOKEN_PREFIX } from "../../fabric/token-names.ts";
import { CsrError } from "../../pki/issue.ts";
import { loggedWrite, TERMINATOR_BEFORE } from "../../store/changes/logged-write.ts";
import type { ModelContext } from "../context.ts";
import { json } from "../entity.ts";
import type { Model } from "../model.ts";
import type { RouterRow } from "../network/routers.ts";
import { needsSignedTokens } from "../session/sessions.ts";

/** Sessions that are looked at together. */
const BATCH = 500;

/** What the fabric asks about routers. */
export function fabricRouters(ctx: ModelContext, model: Model) {
  const { store } = ctx;
  const { db } = store;
  const updateTerminators = async (update: RawBuilder<unknown>): Promise<void> => {
    await store.transaction((trx) =>
      loggedWrite(trx, sql`WITH changed AS (UPDATE terminator ${update} RETURNING id, router_id, service_id)`, {
        changes: [{ kind: "terminator", op: "update", of: "changed", before: TERMINATOR_BEFORE }],
      }),
    );
  };
  return {
    async findRouter(id) {
      const row = await model.routers.find(db, id);
      return row === undefined ? undefined : recordOf(row);
    },
    async routerConfigs(routerId) {
      const row = await model.routers.find(db, routerId);
      if (row === undefined) return undefined;
      const configs = await db
        .selectFrom("router_config")
        .innerJoin("config", "config.id", "router_config.config_id")
        .select(["config.id", "config.config_type_id", "config.name", "config.data"])
        .where("router_id", "=", routerId)
        .orderBy("config.id")
        .execute();
      const { id, name, disabled: isDisabled } = row;
      return {
        ...{ id, name, isDisabled, fingerprint: row.fingerprint ?? "" },
        configs: configs.map(({ data, config_type_id: typeId, ...config }) => {
          return { ...config, typeId, data: JSON.stringify(data) };
        }),
      };
    },
    async saveRouterReport({ routerId, hostname, version, ctrlChanListeners }) {
      const before = (await model.routers.find(db, routerId))?.report.version;
      const isFirstToNeedThem = needsSignedTokens(version.version) && !needsSignedTokens(before?.version ?? null);
      // A failure leaves the report as it was, so that the next one tries again.
      if (isFirstToNeedThem) await endOpaqueSessions(ctx, model, routerId);
      const report = json({ hostname, version });
      const said = ctrlChanListeners === undefined ? {} : { ctrl_chan_listeners: json(ctrlChanListeners) };
      await db
        .updateTable("router")
        .set({ report, ...said })
        .where("id", "=", routerId)
        .execute();
      // Those that were made meanwhile.
      if (isFirstToNeedThem) await endOpaqueSessions(ctx, model, routerId);
    },
    async saveRouterInterfaces(routerId, interfaces) {
      const text = json([...interfaces]);
      await db.updateTable("router").set({ interfaces: text }).where("id", "=", routerId).execute();
    },
    deleteRouter: (routerId) => model.routers.delete(routerId),
    quiesceRouter: (routerId) =>
      updateTerminators(sql`SET saved_precedence = precedence, precedence = 'failed'
        WHERE router_id = ${routerId} AND saved_precedence IS NULL`),
    dequiesceRouter: (routerId) =>
      updateTerminators(sql`SET precedence = saved_precedence, saved_precedence = NULL
        WHERE router_id = ${routerId} AND saved_precedence IS NOT NULL`),
    async extendRouterCertificates({ fingerprint: print, clientCsrPem, serverCsrPem, requireVerification }) {
      const row = await model.routers.findByFingerprint(db, print);
      if (row === undefined) return { refused: `no router has the certificate ${print}: it was replaced or withdrawn` };
      const requests = { routerId: row.id, certCsr: clientCsrPem, serverCertCsr: serverCsrPem };
      const issued = await ctx.pki.issueRouterCertificates(requests).catch(refusedRequest);
      if ("refused" in issued) return issued;
      const { client, server } = issued;
      await store.transaction((trx) =>
        requireVerification
          ? model.routers.setUnverifiedCertificate(trx, row.id, client, print)
          : model.routers.setCertificate(trx, row.id, client, print),
      );
      return { clientCertPem: client.pem, serverCertPem: server.pem, caCertsPem: ctx.pki.caBundlePem };
    },
    async verifyRouterCertificate({ fingerprint: print, clientCertPem }) {
      if (clientCertPem.trim() === "") return { code: "MISSING_CLIENT_PEM", message: "no client certificate was sent" };
      const row = await model.routers.findByFingerprint(db, print);
      if (row === undefined) return { code: "ROUTER_NOT_FOUND", message: `no router has the certificate ${print}` };
      const { unverified_fingerprint: pending, unverified_cert_pem: pem } = row;
      if (pending === null || pem === null) {
        const message = `router ${row.id} has no certificate that waits for verification`;
        return { code: "INVALID_ROUTER_STATE", message };
      }
      if (fingerprintOf(clientCertPem) !== pending) {
        return { code: "INVALID_CLIENT_PEM", message: "the certificate is not the one that was issued last" };
      }
      await store.transaction((trx) => model.routers.setCertificate(trx, row.id, { pem, fingerprint: pending }, print));
      return undefined;
    },
  } satisfies Partial<FabricModel>;
}

/**
 * A router that admits signed tokens only has come: sessions with opaque ones that reach it end, and their clients ask for new ones. Most clients keep the
 * token that they have as long as the session is there, and would fail at this router again and again.
 */
async function endOpaqueSessions(ctx: ModelContext, model: Model, routerId: string): Promise<void> {
  const { db } = ctx.store;
  let ended = 0;
  for (let after = ""; ; ) {
    const index = await model.policy.current();
    const { rows } = await sql<{ id: string; service_id: string; identity_id: string; attrs: string[] }>`
      SELECT s.id, s.service_id, s.identity_id, i.attrs FROM session s JOIN identity i ON i.id = s.identity_id
      WHERE s.id > ${after} AND NOT starts_with(s.token, ${SIGNED_TOKEN_PREFIX}) AND i.type_id <> 'Router'
      ORDER BY s.id LIMIT ${BATCH}`.execute(db);
    const reaching = rows.filter(({ identity_id: id, attrs, service_id: serviceId }) =>
      index.routersFor({ id, attrs }, serviceId).includes(routerId),
    );
    await model.sessions.end(reaching.map(({ id }) => id));
    ended += reaching.length;
    const last = rows.at(-1);
    if (last === undefined || rows.length < BATCH) break;
    after = last.id;
  }
  const message = "a router admits signed tokens only: sessions with opaque tokens that reach it have ended";
  if (ended > 0) ctx.log.info({ routerId, ended }, message);
}

function refusedRequest(error: unknown): { refused: string } {
  if (error instanceof CsrError) return { refused: error.message };
  throw error;
}

function recordOf(row: RouterRow): RouterRecord {
  return {
    id: row.id,
    kind: row.kind,
    ...(row.fingerprint === null ? {} : { fingerprint: row.fingerprint }),
    isDisabled: row.disabled,
    isTunneler: row.is_tunneler_enabled,
    cost: row.cost,
    noTraversal: row.no_traversal,
  };
}

/** Room for any chain that this network issues. */
const MAX_PEM_CHARACTERS = 64 * 1024;

function fingerprintOf(pem: string): string | undefined {
  if (pem.length > MAX_PEM_CHARACTERS) return undefined;
  try {
    return fingerprint(pem);
  } catch (error) {
    if (error instanceof CertificateError) return undefined;
    throw error;
  }
}
