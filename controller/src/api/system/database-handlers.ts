import type { databaseOperations, fabricDatabaseOperations } from "@sallyport/api";
import { apiTime } from "@sallyport/api";
import type { ApiHandlers } from "../../http/context.ts";
import type { ApiDependencies } from "../dependencies.ts";

/** Integrity runs and snapshots, for both APIs that have them. */
export function databaseHandlers({ model }: ApiDependencies): {
  readonly management: ApiHandlers<typeof databaseOperations>;
  readonly fabric: ApiHandlers<typeof fabricDatabaseOperations>;
} {
  const { integrity, snapshots } = model;
  const runs = {
    checkDataIntegrity: async () => integrity.start({ fix: false }),
    fixDataIntegrity: async () => integrity.start({ fix: true }),
    dataIntegrityResults: async () => {
      const { startTime, endTime, results, ...report } = integrity.report();
      return {
        data: {
          ...report,
          startTime: startTime === null ? null : apiTime(startTime),
          endTime: endTime === null ? null : apiTime(endTime),
          results: [...results],
        },
        pagination: { limit: -1, offset: 0, totalCount: results.length },
      };
    },
  };
  const createDatabaseSnapshot = async () => {
    await snapshots.create();
  };
  return {
    management: { ...runs, createDatabaseSnapshot },
    fabric: {
      ...runs,
      createDatabaseSnapshot,
      createDatabaseSnapshotWithPath: async ({ body }) => ({ data: { path: await snapshots.create(body.path) } }),
    },
  };
}
