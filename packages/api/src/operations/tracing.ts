import { call, detail, json } from "../operation.ts";
import { sessionRoutePathDetail, traceDetail, traceSpec } from "../schema/tracing.ts";

/** What shows an administrator where an identity's data flows. */
export const tracingOperations = {
  updateIdentityTracing: call(
    "PUT",
    "/identities/{id}/trace",
    "admin",
    json(traceSpec),
    traceDetail,
    "Trace the circuits of an identity for some time, or stop that",
    { errors: [400, 401, 404, 429] },
  ),
  detailSessionRoutePath: detail(
    "/sessions/{id}/route-path",
    "admin",
    sessionRoutePathDetail,
    "Routers that a session's circuit passes",
  ),
};
