/** The choice of the language. */
import { Languages } from 'lucide-preact'
import { ApiError } from '../api/client.ts'
import { chosenLanguage, languages, type Language } from '../texts/language.ts'
import { changeLanguage, textsOf } from '../texts/texts.ts'
import { reporting } from './notices.tsx'
import './language-field.css'

const texts = textsOf('common')

export function LanguageField() {
  return (
    <label class="language">
      <Languages aria-hidden size={16} />
      {texts.language}
      <select
        value={chosenLanguage.value ?? ''}
        onChange={({ currentTarget: { value } }) =>
          void reporting(show(value === '' ? undefined : (value as Language)))
        }
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

function show(choice: Language | undefined): Promise<void> {
  return changeLanguage(choice).catch((error: unknown) => {
    throw new ApiError(String(error), 'unreachable')
  })
}
