/** The field that searches the index. */
import { useLocation, useSearch } from 'wouter-preact'
import { textOf } from '../components/form-values.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common')

export function SearchBox() {
  const [, navigate] = useLocation()
  const words = new URLSearchParams(useSearch()).get('words') ?? ''
  function submit(event: SubmitEvent) {
    event.preventDefault()
    const entered = textOf(new FormData(event.currentTarget as HTMLFormElement), 'words')
    if (entered.trim() !== '') navigate(`/@search?${new URLSearchParams({ words: entered }).toString()}`)
  }
  return (
    <form role="search" onSubmit={submit}>
      <input
        key={words}
        name="words"
        type="search"
        aria-label={texts.nav.search}
        placeholder={texts.nav.search}
        defaultValue={words}
      />
    </form>
  )
}
