/**
 * The program of a container of the node image: it makes what a keeper makes outside of one, and starts the process that is
 * the cluster. What that says goes to the container's log.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { BoxPlan } from "../../box/box-plan.ts";
import { makeControlGroups } from "../../box/control-groups.ts";
import { say } from "../../keeper/protocol.ts";
import { INSIDE } from "./engine-plan.ts";

const plan = JSON.parse(readFileSync(INSIDE.plan, "utf8")) as BoxPlan;
for (const folder of ["/var/lib", "/var/log", "/run", join(INSIDE.folder, "logs")])
  mkdirSync(folder, { recursive: true });
// The kubelet wants to know who its own user is.
for (const [file, line] of [["passwd", "root:x:0:0:root:/:/usr/bin/bash"] as const, ["group", "root:x:0:"] as const])
  writeFileSync(join("/etc", file), `${line}\n`);
leaveRootGroup();
if (plan.nodes > 0) makeControlGroups(plan.group, plan.nodes);
const box = spawn(process.execPath, [INSIDE.box, INSIDE.plan], {
  stdio: ["pipe", "inherit", "inherit"],
  env: { ...process.env, HOME: INSIDE.folder, TMPDIR: INSIDE.folder },
});
say(box.stdin, { cable: true });
box.once("exit", (code) => process.exit(code ?? 1));

/**
 * In version 2 of control groups a group with processes hands no controllers on to others, save the machine's own root, which
 * a container's root is not.
 */
function leaveRootGroup(): void {
  const root = "/sys/fs/cgroup";
  if (!existsSync(join(root, "cgroup.controllers")) || !existsSync(join(root, "cgroup.type"))) return;
  const first = join(root, "first");
  mkdirSync(first, { recursive: true });
  for (const pid of readFileSync(join(root, "cgroup.procs"), "utf8").trim().split("\n"))
    writeFileSync(join(first, "cgroup.procs"), pid);
}
