/**
 * The controller itself: its database, which is held against its rules and backed up, in the Management API and, with one more, in the Fabric API;
 * and its settings, which are in its file.
 */
import { action, call, detail, emptyBody, optionalJson, unserved } from "../operation.ts";
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

const IN_FILE =
  "the settings of a controller are in its controller.yml (`edge.oidc` among them); change them there and restart it";
const effective = "/controller-settings/{id}/effective";
export const controllerSettingOperations = {
  listControllerSettings: unserved("GET", "/controller-settings", "admin", IN_FILE),
  createControllerSetting: unserved("POST", "/controller-settings", "admin", IN_FILE),
  detailControllerSetting: unserved("GET", "/controller-settings/{id}", "admin", IN_FILE),
  detailControllerSettingEffective: unserved("GET", effective, "admin", IN_FILE),
  updateControllerSetting: unserved("PUT", effective, "admin", IN_FILE),
  patchControllerSetting: unserved("PATCH", effective, "admin", IN_FILE),
  deleteControllerSetting: unserved("DELETE", effective, "admin", IN_FILE),
};
