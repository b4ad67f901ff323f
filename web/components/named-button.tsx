/** A button of a row, whose accessible name also tells which row it is. */

interface NamedButtonProps {
  readonly text: string
  /** The name of the row. */
  readonly of: string
  readonly onClick: () => void
}

export function NamedButton({ text, of, onClick }: NamedButtonProps) {
  return (
    <button type="button" class="quiet" aria-label={`${text} ${of}`} onClick={onClick}>
      {text}
    </button>
  )
}
