import { duration, hostPort, integer, name } from "../scalars.ts";
import { section } from "../section.ts";
import { csr } from "./identity.ts";

/** Present, even empty, to enable SDK connectivity. Specification: "edge". */
export const edge = section({
  db: name("a file path").optional(),
  dbSaveIntervalSeconds: integer().default(30),
  heartbeatIntervalSeconds: integer().default(60),
  sessionValidateChunkSize: integer({ min: 1 }).default(1000),
  sessionValidateMinInterval: duration({ min: 0 }).default(250),
  sessionValidateMaxInterval: duration({ min: 0 }).default(1500),
  apiProxy: section({ listener: hostPort(), upstream: hostPort() }).optional(),
  csr: csr.optional(),
}).transform((value) => ({
  ...value,
  dbSaveIntervalSeconds: Math.max(30, value.dbSaveIntervalSeconds),
  heartbeatIntervalSeconds:
    value.heartbeatIntervalSeconds < 10 || value.heartbeatIntervalSeconds > 60 ? 60 : value.heartbeatIntervalSeconds,
}));
