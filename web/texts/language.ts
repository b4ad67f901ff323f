/** The language of the console: the one that the user has chosen, else the first of the browser's that it has. */
import { computed, signal } from '@preact/signals'

/** The languages by their tags (BCP 47), each with its name in itself. */
export const languages = { en: 'English', 'zh-CN': '简体中文' } as const
export type Language = keyof typeof languages

interface Match {
  readonly language: Language
  /** The tag by which numbers, dates and lists are formatted. It may name another region than the language. */
  readonly locale: string
}

const tags = Object.keys(languages) as readonly Language[]

/** The first of these tags, best first, for which the console has a language; English if there is none. */
export function chooseLanguage(preferred: readonly string[], chosen?: Language): Match {
  const matches = preferred.map(matchOf).filter((match) => match !== undefined)
  if (chosen === undefined) return matches[0] ?? { language: 'en', locale: 'en' }
  return matches.find(({ language }) => language === chosen) ?? { language: chosen, locale: chosen }
}

/** A language of another script, such as 简体中文 for `zh-TW`, is better than none. */
function matchOf(tag: string): Match | undefined {
  const wanted = localeOf(tag)
  const ofLanguage = tags.filter((each) => localeOf(each)?.language === wanted?.language)
  const ofScript = ofLanguage.find((each) => localeOf(each)?.script === wanted?.script)
  if (ofScript !== undefined) return { language: ofScript, locale: tag }
  return ofLanguage[0] && { language: ofLanguage[0], locale: ofLanguage[0] }
}

/** With the script that the tag implies; undefined if it is no tag. */
function localeOf(tag: string): Intl.Locale | undefined {
  try {
    return new Intl.Locale(tag).maximize()
  } catch {
    return undefined
  }
}

const stored = 'language'

/** What the user has chosen in this browser; undefined: nothing. */
export const chosenLanguage = signal(tags.find((tag) => tag === localStorage.getItem(stored)))

export const languageInUse = computed(() => chooseLanguage(navigator.languages, chosenLanguage.value))

/** Stores the choice, and uses it. Undefined: the language of the browser. */
export function storeLanguage(choice: Language | undefined): void {
  if (choice === undefined) localStorage.removeItem(stored)
  else localStorage.setItem(stored, choice)
  chosenLanguage.value = choice
}
