import { silentLogger } from "@sallyport/wire";
import { openStore } from "../database.ts";

// Started by tests: opens the store at the connection given as JSON (embedded: `{ "dir": … }`), says `open`, and stays until it is killed or told to stop.
const where = JSON.parse(process.argv[2] ?? "{}");
try {
  const store = await openStore({ ...where, log: silentLogger });
  process.stdout.write("open\n");
  process.once("SIGTERM", async () => {
    await store.close();
    process.exit(0);
  });
  setInterval(() => undefined, 60_000);
} catch (error) {
  process.stdout.write(`${(error as Error).name}: ${(error as Error).message}\n`);
  process.exit(4);
}
