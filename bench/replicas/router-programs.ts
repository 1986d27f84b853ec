import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { mapLimit } from "@sallyport/async";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { eventually } from "../../e2e/network/eventually.ts";
import { routerFile } from "../../e2e/network/network.ts";
import { Program } from "../../e2e/network/program.ts";
import { PROGRAM_IMAGES } from "../../images/programs.ts";
import type { ControllerSet } from "./controller-set.ts";
import { dataOf, get, idOf, post, routersOnline } from "./requests.ts";

const MAIN = join(import.meta.dirname, "..", "..", "router", "src", "main.ts");
const AT_A_TIME = 2;

/** Enrolls and starts routers, named `r1` and so on, each with its name as role attribute; resolves when every controller has all of them. */
export async function startRouters(set: ControllerSet, folder: string, count: number): Promise<Program[]> {
  const { client, ctrlPort } = set.at(0);
  const ports = await freePorts(count);
  const run = (name: string, ...args: string[]): Program =>
    new Program({
      name,
      command: process.execPath,
      args: [...(PROGRAM_IMAGES.router?.nodeFlags ?? []), MAIN, ...args],
      logFile: join(folder, `${name}.log`),
    });
  const started: Program[] = [];
  try {
    await mapLimit([...ports.entries()], AT_A_TIME, async ([index, port]) => {
      const name = `r${index + 1}`;
      const created = await client.ask(post("/edge-routers", { name, roleAttributes: [name] }));
      const { enrollmentJwt } = dataOf<{ enrollmentJwt: string }>(
        await client.ask(get(`/edge-routers/${idOf(created)}`)),
      );
      const [file, token] = [join(folder, `${name}.yml`), join(folder, `${name}.jwt`)];
      writeFileSync(file, routerFile({ folder, name, controllerPort: ctrlPort, port }));
      writeFileSync(token, enrollmentJwt, { mode: 0o600 });
      const enroll = run(name, "enroll", file, "--jwt", token);
      if ((await enroll.exited) !== 0) throw new Error(`${name} was not enrolled\n${enroll.tail.join("\n")}`);
      started.push(run(name, "run", file));
    });
    for (const member of set.members) {
      await eventually(`${count} routers at ${member.id}`, async () => (await routersOnline(member)) === count, 60_000);
    }
    return started;
  } catch (error) {
    await stopAll(started);
    throw error;
  }
}

export async function stopAll(programs: readonly Program[]): Promise<void> {
  await Promise.all(programs.map((program) => program.stop()));
}
