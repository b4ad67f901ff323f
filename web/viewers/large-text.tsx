/** A text of any size: the blocks around the place that is read are in the document, and no others. */
import { ArrowDownToLine, ArrowUpToLine, Search, X } from 'lucide-preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Failure } from '../components/failure.tsx'
import { formatSize, percent } from '../texts/format.ts'
import { textsOf } from '../texts/texts.ts'
import { RangeText, type Block } from './range-text.ts'
import { TextSearch, type Match } from './text-search.ts'
import './large-text.css'

const texts = textsOf('common', 'viewers')

/** Blocks in the document at most. */
const mostBlocks = 8
/** Pixels from the first or the last line that is loaded, within which more is loaded. */
const loadDistance = 1500
/** Steps of the slider. */
const steps = 1000

interface LargeTextProps {
  /** The URL of the content. */
  readonly source: string
  readonly name: string
}

export default function LargeText({ source, name }: LargeTextProps) {
  const [text, setText] = useState<RangeText>()
  const [error, setError] = useState<unknown>()
  useEffect(() => {
    const opening = new AbortController()
    RangeText.open(source, opening.signal).then(setText, (reason: unknown) => {
      if (!opening.signal.aborted) setError(reason)
    })
    return () => opening.abort()
  }, [source])
  if (error !== undefined) return <Failure error={error} />
  if (text === undefined) return <p class="loading skeleton">{texts.loading}</p>
  // No text holds a NUL character.
  if (text.first.text.includes('\0')) return <p class="loading">{texts.look.none}</p>
  return <Blocks text={text} name={name} />
}

/** What keeps its place in the view when blocks are added before it or removed. */
interface Anchor {
  readonly start: number
  readonly top: number
}

function Blocks({ text, name }: { readonly text: RangeText; readonly name: string }) {
  const view = useRef<HTMLDivElement>(null)
  const anchor = useRef<Anchor>()
  const reading = useRef<AbortController>()
  const [blocks, setBlocks] = useState<readonly Block[]>([text.first])
  const [place, setPlace] = useState(0)
  const [error, setError] = useState<unknown>()
  const [match, setMatch] = useState<Match>()

  useEffect(() => () => reading.current?.abort(), [])

  /** Reads one thing after another. A new place ends what is being read. */
  function read(isPlace: boolean, work: (signal: AbortSignal) => Promise<void>): void {
    if (reading.current && !isPlace) return
    reading.current?.abort()
    const own = (reading.current = new AbortController())
    work(own.signal)
      .catch((reason: unknown) => own.signal.aborted || setError(reason))
      .finally(() => {
        if (reading.current === own) reading.current = undefined
      })
  }

  const elementOf = (start: number) => view.current?.querySelector<HTMLElement>(`[data-start="${start}"]`)

  useLayoutEffect(() => {
    const kept = anchor.current
    anchor.current = undefined
    const element = kept && elementOf(kept.start)
    if (view.current && element) view.current.scrollTop += element.getBoundingClientRect().top - kept.top
    loadMore()
  }, [blocks])

  function show(next: readonly Block[], kept?: Block): void {
    const element = kept && elementOf(kept.start)
    if (element) anchor.current = { start: kept.start, top: element.getBoundingClientRect().top }
    setError(undefined)
    setBlocks(next)
  }

  function loadMore(): void {
    const [first, last] = [blocks[0], blocks.at(-1)]
    if (!view.current || !first || !last) return
    const { scrollTop, scrollHeight, clientHeight } = view.current
    setPlace(placeShown())
    if (scrollTop < loadDistance && first.start > 0) {
      read(false, async (signal) => {
        const block = await text.before(first.start, signal)
        if (block && !signal.aborted) show([block, ...blocks].slice(0, mostBlocks), first)
      })
    } else if (scrollHeight - scrollTop - clientHeight < loadDistance && last.end < text.size) {
      read(false, async (signal) => {
        const block = await text.after(last.end, signal)
        if (block && !signal.aborted) show([...blocks, block].slice(-mostBlocks), last)
      })
    }
  }

  /** The place in the file of the first line in view, in bytes, as the heights of the blocks tell it. */
  function placeShown(): number {
    const top = view.current?.getBoundingClientRect().top ?? 0
    for (const { start, end } of blocks) {
      const box = elementOf(start)?.getBoundingClientRect()
      if (box && box.bottom > top + 1)
        return Math.round(start + (Math.max(0, top - box.top) / box.height) * (end - start))
    }
    return blocks.at(-1)?.end ?? 0
  }

  function goTo(target: number, toEnd = false): void {
    read(true, async (signal) => {
      const block = await text.at(target, signal)
      if (!block || signal.aborted) return
      show([block])
      requestAnimationFrame(() => view.current?.scrollTo(0, toEnd ? view.current.scrollHeight : 0))
    })
  }

  function showMatch(found: Match): void {
    if (!blocks.includes(found.block)) show([found.block])
    setMatch(found)
  }

  useLayoutEffect(() => {
    const node = match && elementOf(match.block.start)?.firstChild
    if (!match || !node || !view.current) return
    const range = document.createRange()
    range.setStart(node, match.index)
    range.setEnd(node, match.index + match.length)
    CSS.highlights.set('found', new Highlight(range))
    const [box, frame] = [range.getBoundingClientRect(), view.current.getBoundingClientRect()]
    view.current.scrollTop += box.top - frame.top - frame.height / 3
    return () => void CSS.highlights.delete('found')
  }, [match, blocks.some((block) => block === match?.block)])

  const share = text.size > 0 ? Math.min(1, place / text.size) : 0
  const shown = texts.longText.at(formatSize(place), formatSize(text.size), percent(share))
  return (
    <>
      <div class="toolbar">
        <PlaceButton label={texts.longText.start} Symbol={ArrowUpToLine} onClick={() => goTo(0)} />
        <PlaceButton label={texts.longText.end} Symbol={ArrowDownToLine} onClick={() => goTo(text.size, true)} />
        <input
          type="range"
          class="long-text-place"
          aria-label={texts.longText.position}
          aria-valuetext={shown}
          min={0}
          max={steps}
          value={Math.round(share * steps)}
          onChange={({ currentTarget: { value } }) => goTo(Math.round((Number(value) / steps) * text.size))}
        />
        <span class="muted long-text-share">{shown}</span>
        <span class="space" />
        <Finder text={text} blocks={blocks} from={place} last={match} onFound={showMatch} />
      </div>
      <p class="long-text-note">{texts.longText.readOnly}</p>
      {error !== undefined && <Failure error={error} onRetry={() => goTo(place)} />}
      <div ref={view} class="long-text" role="region" aria-label={name} tabIndex={0} onScroll={loadMore}>
        {blocks.map(({ start, text: content }) => (
          <pre key={start} data-start={start}>
            {content}
          </pre>
        ))}
      </div>
    </>
  )
}

interface PlaceButtonProps {
  readonly label: string
  readonly Symbol: typeof ArrowUpToLine
  readonly onClick: () => void
}

function PlaceButton({ label, Symbol, onClick }: PlaceButtonProps) {
  return (
    <button type="button" class="quiet icon" aria-label={label} title={label} onClick={onClick}>
      <Symbol aria-hidden size={16} />
    </button>
  )
}

interface FinderProps {
  readonly text: RangeText
  readonly blocks: readonly Block[]
  /** The place in the file from which is searched if nothing was found yet, in bytes. */
  readonly from: number
  readonly last: Match | undefined
  readonly onFound: (match: Match) => void
}

/** Searches from the last match, or from the place in view, to the end of the file. */
function Finder({ text, blocks, from, last, onFound }: FinderProps) {
  const [words, setWords] = useState('')
  const [state, setState] = useState<{ readonly share: number } | 'notFound'>()
  const searching = useRef<AbortController>()
  useEffect(() => () => searching.current?.abort(), [])
  const isSearching = typeof state === 'object'

  async function find(event: Event): Promise<void> {
    event.preventDefault()
    searching.current?.abort()
    if (words === '') return
    const { signal } = (searching.current = new AbortController())
    const onProgress = (share: number) => setState({ share })
    try {
      const search = new TextSearch(text, words)
      const isNext = last?.words === words && blocks.includes(last.block)
      const found = await search.next(isNext ? last : { blocks, from }, onProgress, signal)
      if (signal.aborted) return
      setState(found ? undefined : 'notFound')
      if (found) onFound(found)
    } catch {
      if (!signal.aborted) setState('notFound')
    }
  }

  function stop(): void {
    searching.current?.abort()
    setState(undefined)
  }

  return (
    <form
      role="search"
      aria-label={texts.longText.find}
      class="long-text-finder"
      onSubmit={(event) => void find(event)}
    >
      <span role="status" class="muted">
        {isSearching && texts.longText.searching(percent(state.share))}
        {state === 'notFound' && texts.longText.notFound}
      </span>
      <input
        type="search"
        aria-label={texts.longText.find}
        placeholder={texts.longText.find}
        value={words}
        maxLength={200}
        onInput={({ currentTarget: { value } }) => {
          setWords(value)
          stop()
        }}
      />
      {isSearching ? (
        <PlaceButton label={texts.longText.stop} Symbol={X} onClick={stop} />
      ) : (
        <button type="submit" class="quiet icon" aria-label={texts.longText.findNext} title={texts.longText.findNext}>
          <Search aria-hidden size={16} />
        </button>
      )}
    </form>
  )
}
