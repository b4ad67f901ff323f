/** A button of a row, whose accessible name also tells which row it is. */

interface NamedButtonProps {
  readonly text: string
  /** The name of the row. */
  readonly of: string
  readonly onClick: () => void
  /** Whether it deletes the row. */
  readonly deletes?: boolean
}

export function NamedButton({ text, of, onClick, deletes = false }: NamedButtonProps) {
  return (
    <button type="button" class={deletes ? 'quiet deletes' : 'quiet'} aria-label={`${text} ${of}`} onClick={onClick}>
      {text}
    </button>
  )
}
