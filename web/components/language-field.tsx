/** The choice of the language, which loads the page again. */
import { Languages } from 'lucide-preact'
import { chosenLanguage, languages, storeLanguage, type Language } from '../texts/language.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common')

export function LanguageField() {
  return (
    <label class="language">
      <Languages aria-hidden size={16} />
      {texts.language}
      <select
        value={chosenLanguage ?? ''}
        onChange={({ currentTarget: { value } }) => storeLanguage(value === '' ? undefined : (value as Language))}
      >
        <option value="">{texts.languageOfBrowser}</option>
        {Object.entries(languages).map(([tag, name]) => (
          <option key={tag} value={tag} lang={tag}>
            {name}
          </option>
        ))}
      </select>
    </label>
  )
}
