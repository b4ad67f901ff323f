/**
 * Names as SMB carries them. What Windows does not allow in a name is put where it does no harm, as other systems do that keep their
 * files on such servers: characters in Unicode's private area (as macOS, and Linux with `mapposix`), device names by their third
 * character there (as Cygwin).
 */
import { folded, refusedName, segmentsOf, type Path } from '../../src/path.js'

/** Those of ASCII below the blank are put at U+F001 and on. */
const placeOfSpecials = 0xf020
const specials = '"*:<>?'
const bar = { character: '|', place: '\uf027' } as const
const lastBlank = '\uf028'
const lastDot = '\uf029'

/** Where Windows finds a device, whatever extension follows. */
const device =
  /^(?:con|prn|aux|nul|com[1-9\u00b9\u00b2\u00b3]|lpt[1-9\u00b9\u00b2\u00b3]|conin\$|conout\$)(?:\s*(?:\..*)?)$/isu
/** Letters and digits that are the third character of a device name. */
const placeOfThird = 0xf000
const thirdPlaces = /^(..)([\uf020-\uf07f])/su

/** Names of the form that old programs want: the server may give them to files of other names. */
const shortName = /^[^.]{1,6}~\d+(?:\..{0,3})?$/u

/** The name as it goes over the wire. */
export function wireName(name: string): string {
  // eslint-disable-next-line no-control-regex -- these are what is looked for
  let wire = name.replace(/[\x01-\x1f]/g, (found) => String.fromCharCode(0xf000 + found.charCodeAt(0)))
  wire = wire.replace(/["*:<>?]/g, (found) => String.fromCharCode(placeOfSpecials + specials.indexOf(found)))
  wire = wire.replaceAll(bar.character, bar.place)
  if (wire.endsWith(' ')) wire = wire.slice(0, -1) + lastBlank
  if (wire.endsWith('.')) wire = wire.slice(0, -1) + lastDot
  if (device.test(wire))
    wire = wire.slice(0, 2) + String.fromCharCode(placeOfThird + wire.charCodeAt(2)) + wire.slice(3)
  return wire
}

/** A name from the server. For one that cannot be asked for again, a name that the core refuses. */
export function nameFromWire(wire: string): string {
  let name = wire.replace(thirdPlaces, (found, start: string, third: string) => {
    const plain = start + String.fromCharCode(third.charCodeAt(0) - placeOfThird)
    return device.test(plain + wire.slice(3)) ? plain : found
  })
  name = name.replace(/[\uf001-\uf01f]/g, (found) => String.fromCharCode(found.charCodeAt(0) - 0xf000))
  name = name.replace(/[\uf020-\uf025]/g, (found) => specials.charAt(found.charCodeAt(0) - placeOfSpecials))
  name = name.replaceAll(bar.place, bar.character)
  if (name.endsWith(lastBlank)) name = `${name.slice(0, -1)} `
  if (name.endsWith(lastDot)) name = `${name.slice(0, -1)}.`
  return wireName(name) === wire ? name : refusedName(wire)
}

export function joined(folder: string, wire: string): string {
  return folder === '' ? wire : `${folder}\\${wire}`
}

/** Without the last name; empty for one name. */
export function folderOf(wirePath: string): string {
  return wirePath.slice(0, Math.max(0, wirePath.lastIndexOf('\\')))
}

/** Spellings under which a server may know a name that it takes for this one: of accents in one character, and in two. */
export function formsOf(name: string): readonly string[] {
  return [...new Set([name, name.normalize('NFC'), name.normalize('NFD')])]
}

/**
 * Whether the server may have this path under another spelling, or may show something else by it: then each name of it has to be
 * looked up.
 */
export function isAmbiguous(path: Path): boolean {
  return segmentsOf(path).some((name) => shortName.test(name) || name.normalize('NFC') !== name.normalize('NFD'))
}

/** Whether two names are one where case and form do not count. */
export function isSameName(one: string, other: string): boolean {
  return folded(one) === folded(other)
}
