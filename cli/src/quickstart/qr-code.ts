/** Tokens that the camera of another device reads. */
import { create, toString as textOf } from "qrcode";
import type { CommandContext } from "../context.ts";
import { hasColours, widthOf } from "../terminal/screen.ts";

/** Blank modules around the code. */
const QUIET = 2;
/** Cameras expect dark on light, whatever the colours of the terminal. */
const [DARK_ON_LIGHT, PLAIN] = ["\u001b[30;107m", "\u001b[0m"];

/** The code of a text, as lines for a terminal; where it is narrower, what to do instead. */
export async function qrCode(text: string, { stdout, env }: CommandContext): Promise<string> {
  const { modules } = create(text, { errorCorrectionLevel: "L" });
  const width = modules.size + 2 * QUIET;
  const columns = widthOf(stdout);
  if (columns !== undefined && columns < width)
    return `  a QR code of the token needs ${width} columns, and this terminal has ${columns}: make it wider, and start again\n`;
  const code = await textOf(text, { type: "utf8", errorCorrectionLevel: "L", margin: QUIET });
  const lines = code.split("\n").filter((line) => line !== "");
  const isPainted = hasColours(stdout, env);
  return lines.map((line) => (isPainted ? `${DARK_ON_LIGHT}${line}${PLAIN}\n` : `${line}\n`)).join("");
}
