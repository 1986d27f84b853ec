import type { Migration } from "../upgrade/migration.ts";
import { configSchemas } from "./0013_config_schemas.ts";
import { defaultAdministrator } from "./0014_default_administrator.ts";
import { enrollmentCode } from "./0015_enrollment_code.ts";
import { epoch } from "./0020_epoch.ts";
import { caJwt } from "./0021_ca_jwt.ts";
import { sessionsOfAKind } from "./0022_sessions_of_a_kind.ts";
import { oidc } from "./0023_oidc.ts";
import { tokenEnrollment } from "./0024_token_enrollment.ts";
import { generation2 } from "./0025_generation_2.ts";
import { failedAttempts } from "./0030_failed_attempts.ts";
import { wokenSessions } from "./0031_woken_sessions.ts";
import { replicas } from "./0040_replicas.ts";
import { circuitOwners } from "./0042_circuit_owners.ts";
import { schemaLevels } from "./0043_schema_levels.ts";
import { leaseBeginnings } from "./0044_lease_beginnings.ts";
import { engine } from "./v0_1/0001_engine.ts";
import { entities } from "./v0_1/0002_entities.ts";
import { mfa } from "./v0_1/0003_mfa.ts";
import { enrollment } from "./v0_1/0005_enrollment.ts";
import { upkeep } from "./v0_1/0007_upkeep.ts";
import { speed } from "./v0_1/0009_speed.ts";
import { identityTypes } from "./v0_1/0010_identity_types.ts";
import { postureReports } from "./v0_1/0011_posture_reports.ts";
import { overlappingExtensions } from "./v0_1/0012_overlapping_extensions.ts";

/** Every migration of the store in the order of application. Published ones are never edited: add a new one. */
export const migrations: readonly Migration[] = [
  engine,
  entities,
  mfa,
  enrollment,
  upkeep,
  speed,
  identityTypes,
  postureReports,
  overlappingExtensions,
  configSchemas,
  defaultAdministrator,
  enrollmentCode,
  epoch,
  caJwt,
  sessionsOfAKind,
  oidc,
  tokenEnrollment,
  generation2,
  failedAttempts,
  wokenSessions,
  replicas,
  circuitOwners,
  schemaLevels,
  leaseBeginnings,
];
