/** The choices of `appearance.ts`. */
import { textsOf } from '../texts/texts.ts'
import { readmes, rows, scheme, type Choice } from './appearance.ts'

const texts = textsOf('common')

export function AppearanceFields() {
  return (
    <>
      <ChoiceField label={texts.colors} choice={scheme} valueTexts={texts.schemes} />
      <ChoiceField label={texts.rows} choice={rows} valueTexts={texts.rowHeights} />
      <ChoiceField label={texts.readmes} choice={readmes} valueTexts={texts.readmeChoices} />
    </>
  )
}

interface ChoiceFieldProps<Value extends string> {
  readonly label: string
  readonly choice: Choice<Value>
  readonly valueTexts: Readonly<Record<Value, string>>
}

function ChoiceField<Value extends string>({ label, choice, valueTexts }: ChoiceFieldProps<Value>) {
  const { values, chosen } = choice
  return (
    <label class="language">
      {label}
      <select
        value={chosen.value}
        onChange={({ currentTarget: { selectedIndex } }) => {
          chosen.value = values[selectedIndex] ?? values[0]
        }}
      >
        {values.map((value) => (
          <option key={value} value={value}>
            {valueTexts[value]}
          </option>
        ))}
      </select>
    </label>
  )
}
