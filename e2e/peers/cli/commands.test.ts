import { afterAll, beforeAll, describe } from "vitest";
import { type SideBySide, startSideBySide } from "../../network/openziti/side-by-side.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { peer } from "../peer.ts";
import { configCommands } from "./commands/configs.ts";
import { identityCommands } from "./commands/identities.ts";
import { loginCommands } from "./commands/login.ts";
import { relationCommands } from "./commands/relations.ts";
import { Same } from "./commands/same.ts";
import { securityCommands } from "./commands/security.ts";

describe.skipIf(peer.isMissing)("OpenZiti's CLI prints for our controller what it prints for OpenZiti's", () => {
  let folder = "";
  let sides: SideBySide;
  let same: Same;

  beforeAll(async () => {
    folder = makeScratch("commands");
    sides = await startSideBySide(peer.path, folder);
    same = new Same(sides);
  });

  afterAll(async () => {
    await sides?.stop();
    removeScratch(folder);
  });

  configCommands(() => same);
  identityCommands(() => same);
  relationCommands(() => same);
  loginCommands(() => same);
  securityCommands(() => same);
});
