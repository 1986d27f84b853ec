import { CertificateError, fingerprint } from "@sallyport/wire";
import { sql } from "kysely";
import type { FabricModel, RouterRecord } from "../../fabric/ports.ts";
import { CsrError } from "../../pki/issue.ts";
import { TERMINATOR_BEFORE } from "../../store/logged-changes.ts";
import { loggedWrite } from "../../store/logged-write.ts";
import type { ModelContext } from "../context.ts";
import { json } from "../entity.ts";
import type { Model } from "../model.ts";
import type { RouterRow } from "../network/routers.ts";

type RouterPart = Pick<
  FabricModel,
  | "findRouter"
  | "saveRouterReport"
  | "saveRouterInterfaces"
  | "deleteRouter"
  | "quiesceRouter"
  | "dequiesceRouter"
  | "extendRouterCertificates"
  | "verifyRouterCertificate"
>;

const PRECEDENCE_CHANGED = { kind: "terminator", op: "update", of: "changed", before: TERMINATOR_BEFORE } as const;

/** What the fabric asks about routers. */
export function fabricRouters(ctx: ModelContext, model: Model): RouterPart {
  const { store } = ctx;
  const { db } = store;
  return {
    async findRouter(id) {
      const row = await model.routers.find(db, id);
      return row === undefined ? undefined : recordOf(row);
    },
    async saveRouterReport({ routerId, hostname, version }) {
      const report = json({ hostname, version });
      await db.updateTable("router").set({ report }).where("id", "=", routerId).execute();
    },
    async saveRouterInterfaces(routerId, interfaces) {
      await db
        .updateTable("router")
        .set({ interfaces: json([...interfaces]) })
        .where("id", "=", routerId)
        .execute();
    },
    deleteRouter: (routerId) => model.routers.delete(routerId),
    async quiesceRouter(routerId) {
      await store.transaction(async (trx) => {
        await loggedWrite(
          trx,
          sql`WITH changed AS (
            UPDATE terminator SET saved_precedence = precedence, precedence = 'failed'
            WHERE router_id = ${routerId} AND saved_precedence IS NULL RETURNING id, router_id, service_id)`,
          { changes: [PRECEDENCE_CHANGED] },
        );
      });
    },
    async dequiesceRouter(routerId) {
      await store.transaction(async (trx) => {
        await loggedWrite(
          trx,
          sql`WITH changed AS (
            UPDATE terminator SET precedence = saved_precedence, saved_precedence = NULL
            WHERE router_id = ${routerId} AND saved_precedence IS NOT NULL RETURNING id, router_id, service_id)`,
          { changes: [PRECEDENCE_CHANGED] },
        );
      });
    },
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
        return {
          code: "INVALID_ROUTER_STATE",
          message: `router ${row.id} has no certificate that waits for verification`,
        };
      }
      if (fingerprintOf(clientCertPem) !== pending) {
        return { code: "INVALID_CLIENT_PEM", message: "the certificate is not the one that was issued last" };
      }
      await store.transaction((trx) => model.routers.setCertificate(trx, row.id, { pem, fingerprint: pending }, print));
      return undefined;
    },
  };
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
const LONGEST_PEM = 64 * 1024;

function fingerprintOf(pem: string): string | undefined {
  if (pem.length > LONGEST_PEM) return undefined;
  try {
    return fingerprint(pem);
  } catch (error) {
    if (error instanceof CertificateError) return undefined;
    throw error;
  }
}
