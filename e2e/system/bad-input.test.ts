import { afterAll, afterEach, beforeAll } from "vitest";
import { describeAdmitted } from "./bad-input/admitted.ts";
import { describeApis } from "./bad-input/apis.ts";
import { describeHellos } from "./bad-input/channels.ts";
import { describeConfiguration } from "./bad-input/configuration.ts";
import { describeEnrollment } from "./bad-input/enrollment.ts";
import { describeHandshakes } from "./bad-input/handshakes.ts";
import { describeLogs } from "./bad-input/logs.ts";
import { Site } from "./bad-input/site.ts";

// One network for all of them: the last looks for what the others have left in its logs.
const site = new Site();

beforeAll(async () => await site.start(), 120_000);
afterAll(async () => await site.stop());
// Whatever came before: the network carries bytes.
afterEach(async () => await site.exchange());

describeHellos(site);
describeAdmitted(site);
describeHandshakes(site);
describeApis(site);
describeEnrollment(site);
describeConfiguration(site);
describeLogs(site);
