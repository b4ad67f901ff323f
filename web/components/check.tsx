/** A checkbox with its text. */

interface CheckProps {
  readonly text: string
  readonly checked: boolean
  readonly onChecked: (checked: boolean) => void
}

export function Check({ text, checked, onChecked }: CheckProps) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} onChange={({ currentTarget }) => onChecked(currentTarget.checked)} />
      {text}
    </label>
  )
}
