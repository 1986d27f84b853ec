/** The controller's database: holding it against its rules, and backups. In the Management API and, with one more, in the Fabric API. */
import { action, call, detail, emptyBody, optionalJson } from "../operation.ts";
import { dataIntegrityDetails, snapshotMade, snapshotRequest } from "../schema/database.ts";

const rare = { errors: [401, 429] };

const integrityOperations = {
  checkDataIntegrity: action(
    "POST",
    "/database/check-data-integrity",
    "admin",
    emptyBody,
    "Begin to hold the database against its rules; one run at a time",
    { ...rare, status: 202 },
  ),
  fixDataIntegrity: action(
    "POST",
    "/database/fix-data-integrity",
    "admin",
    emptyBody,
    "The same, repairing what can be repaired",
    { ...rare, status: 202 },
  ),
  dataIntegrityResults: detail(
    "/database/data-integrity-results",
    "admin",
    dataIntegrityDetails,
    "What the last run found, or the present one so far",
    rare,
  ),
};

export const databaseOperations = {
  ...integrityOperations,
  createDatabaseSnapshot: action(
    "POST",
    "/database/snapshot",
    "admin",
    emptyBody,
    "Write a backup beside the database; at most one a minute",
    rare,
  ),
};

export const fabricDatabaseOperations = {
  ...integrityOperations,
  createDatabaseSnapshot: action(
    "POST",
    "/database",
    "admin",
    emptyBody,
    "Write a backup beside the database; at most one a minute",
    rare,
  ),
  createDatabaseSnapshotWithPath: call(
    "POST",
    "/database/snapshot",
    "admin",
    optionalJson(snapshotRequest),
    snapshotMade,
    "Write a backup under a name of your choice in the folder of snapshots; at most one a minute",
  ),
};
