/** The name of a browser for people, from its header `User-Agent`. */
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common')

/** What the header of each browser holds, the more special ones first: all of them pretend to be others. */
const browsers = [
  ['Edg/', 'Edge'],
  ['OPR/', 'Opera'],
  ['Firefox/', 'Firefox'],
  ['Chrome/', 'Chrome'],
  ['Safari/', 'Safari'],
] as const

const systems = [
  ['Android', 'Android'],
  ['iPhone', 'iPhone'],
  ['iPad', 'iPad'],
  ['Windows', 'Windows'],
  ['Mac OS X', 'macOS'],
  ['Linux', 'Linux'],
] as const

/** The name of the browser, such as `Firefox, Linux`; the header itself if it is of no known browser. */
export function browserOf(userAgent: string): string {
  const browser = named(browsers, userAgent)
  const system = named(systems, userAgent)
  return browser === undefined ? userAgent : texts.facts([browser, system])
}

function named(names: readonly (readonly [mark: string, name: string])[], userAgent: string): string | undefined {
  return names.find(([mark]) => userAgent.includes(mark))?.[1]
}
