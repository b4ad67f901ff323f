/** English, made longer, with an accent on every letter: a text that lacks them is not in a catalogue. */
import { readdirSync } from 'node:fs'
import type { Page } from 'playwright-core'

/**
 * The text with accents, 40 % longer, in brackets. What is between two marks (U+E000, U+E001) is not of the console,
 * and stays. Works in a browser too, by its source.
 */
export function pseudo(text: string): string {
  const accents = 'áƀçđéƒğĥíĵķłɱñóþɋřšţúṽŵẋýž'
  const parts = text.split(/\uE000([^\uE001]*)\uE001/)
  const own = parts.filter((_, index) => index % 2 === 0).join('')
  if (!/[a-z]/i.test(own)) return parts.join('')
  const accented = (part: string) =>
    part.replace(/[a-z]/gi, (letter) => {
      const small = accents.charAt(letter.toLowerCase().charCodeAt(0) - 97)
      return letter >= 'a' ? small : small.toUpperCase()
    })
  const words = ' łóñğéř'.repeat(own.length).slice(0, Math.ceil(own.length * 0.4))
  return `⟦${parts.map((part, index) => (index % 2 === 0 ? accented(part) : part)).join('')}${words}⟧`
}

/** A module whose texts are those of the module `original`, or which is as the module is if it has no texts. */
function moduleOf(original: string): string {
  return `import content from ${JSON.stringify(original)}
${pseudo.toString()}
const mark = (value) =>
  Array.isArray(value) ? value.map(mark)
  : typeof value === 'string' && value !== '' ? '\\uE000' + value + '\\uE001'
  : value
const translated = (value) =>
  typeof value === 'string' ? pseudo(value)
  : typeof value === 'function' ? (...values) => pseudo(value(...values.map(mark)))
  : Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, translated(inner)]))
export default typeof content === 'object' ? translated(content) : content`
}

/** Has the page show this language in the place of English. */
export async function usePseudoLocale(page: Page): Promise<void> {
  const names = readdirSync('web/texts/en').map((name) => name.replace('.ts', ''))
  await page.route(new RegExp(`/static/(?:${names.join('|')})-\\w+\\.js$`), (route, request) =>
    route.fulfill({ contentType: 'text/javascript', body: moduleOf(`${request.url()}?original`) }),
  )
}
