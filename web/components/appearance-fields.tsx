/** The choices of `appearance.ts`. */
import { textsOf } from '../texts/texts.ts'
import { rows, scheme } from './appearance.ts'

const texts = textsOf('common')

export function AppearanceFields() {
  return (
    <>
      <label class="language">
        {texts.colors}
        <select
          value={scheme.chosen.value}
          onChange={({ currentTarget: { selectedIndex } }) => {
            scheme.chosen.value = scheme.values[selectedIndex] ?? 'system'
          }}
        >
          {scheme.values.map((value) => (
            <option key={value} value={value}>
              {texts.schemes[value]}
            </option>
          ))}
        </select>
      </label>
      <label class="language">
        {texts.rows}
        <select
          value={rows.chosen.value}
          onChange={({ currentTarget: { selectedIndex } }) => {
            rows.chosen.value = rows.values[selectedIndex] ?? 'compact'
          }}
        >
          {rows.values.map((value) => (
            <option key={value} value={value}>
              {texts.rowHeights[value]}
            </option>
          ))}
        </select>
      </label>
    </>
  )
}
