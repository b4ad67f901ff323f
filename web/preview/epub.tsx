/** A book, chapter by chapter. */
import { ChevronLeft, ChevronRight, List } from 'lucide-preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Book, type Chapter, type ContentsEntry } from './book.ts'
import type { Place, PreviewTexts } from './messages.ts'
import { scrollToTarget, startPreview, type OpenedFile } from './frame.tsx'
import { Zip } from './zip.ts'
import './epub.css'

/** Milliseconds after which a place is reported to which the reader has scrolled. */
const reportDelay = 400

startPreview(async ({ bytes, place, report }) => {
  const book = new Book(new Zip(bytes))
  const View = ({ texts }: { readonly texts: PreviewTexts }) => (
    <Reader book={book} first={place} report={report} texts={texts} />
  )
  return { View }
})

interface ReaderProps {
  readonly book: Book
  /** Where the reader was the last time. */
  readonly first: Place | undefined
  readonly report: OpenedFile['report']
  readonly texts: PreviewTexts
}

/** A place to show: a share of the chapter, or the element with an id. */
interface Target {
  readonly chapter: number
  readonly share?: number
  readonly fragment?: string
}

function Reader({ book, first, report, texts }: ReaderProps) {
  const { chapters, contents, isRightToLeft } = book
  const [target, setTarget] = useState<Target>(first && first.chapter < chapters.length ? first : { chapter: 0 })
  const [isListed, setListed] = useState(false)
  const [isDamaged, setDamaged] = useState(false)
  const page = useRef<HTMLElement>(null)
  const { chapter } = target
  const entry = contents.find((each) => each.chapter === chapter) ?? contents.findLast((each) => each.chapter < chapter)
  const title = entry?.title ?? book.title

  useLayoutEffect(() => {
    const view = page.current
    if (!view) return
    let shown: Chapter | undefined
    try {
      shown = book.chapter(chapter)
      setDamaged(false)
    } catch {
      setDamaged(true)
    }
    const article = document.createElement('article')
    article.lang = book.language
    article.append(shown?.content ?? '')
    view.replaceChildren(article)
    return () => shown?.release()
  }, [chapter])

  useEffect(() => {
    const view = page.current
    if (!view) return
    view.scrollTo(0, (target.share ?? 0) * (view.scrollHeight - view.clientHeight))
    if (target.fragment) scrollToTarget(view, target.fragment)
    report({ kind: 'place', place: { chapter, share: shareOf(view) } })
  }, [target])

  useEffect(() => {
    const view = page.current
    if (!view) return
    let timer: ReturnType<typeof setTimeout> | undefined
    const onScroll = () => {
      clearTimeout(timer)
      timer = setTimeout(() => report({ kind: 'place', place: { chapter, share: shareOf(view) } }), reportDelay)
    }
    const onTarget = ({ detail }: Event & { readonly detail?: unknown }) => {
      const next = book.targetOf(String(detail), chapter)
      if (next) setTarget(next)
    }
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return
      if (event.key === 'ArrowLeft') step(isRightToLeft ? 1 : -1)
      else if (event.key === 'ArrowRight') step(isRightToLeft ? -1 : 1)
      else if (event.key === 'Escape') setListed(false)
    }
    view.addEventListener('scroll', onScroll)
    view.addEventListener('target', onTarget)
    addEventListener('keydown', onKeyDown)
    return () => {
      clearTimeout(timer)
      view.removeEventListener('scroll', onScroll)
      view.removeEventListener('target', onTarget)
      removeEventListener('keydown', onKeyDown)
    }
  }, [chapter])

  function step(by: number): void {
    if (chapters[chapter + by] !== undefined) open({ chapter: chapter + by })
  }

  function open(next: Target): void {
    setTarget(next)
    setListed(false)
    page.current?.focus()
  }

  return (
    <>
      <div class="reader-bar">
        {contents.length > 0 && (
          <button
            type="button"
            class="quiet icon"
            aria-expanded={isListed}
            aria-label={texts.chapters}
            title={texts.chapters}
            onClick={() => setListed(!isListed)}
          >
            <List aria-hidden size={18} />
          </button>
        )}
        <strong class="reader-title">{title}</strong>
        <span class="muted">{`${chapter + 1} / ${chapters.length}`}</span>
        <StepButton label={texts.previousChapter} isDisabled={chapter === 0} onStep={() => step(-1)}>
          <ChevronLeft aria-hidden size={18} />
        </StepButton>
        <StepButton label={texts.nextChapter} isDisabled={chapter === chapters.length - 1} onStep={() => step(1)}>
          <ChevronRight aria-hidden size={18} />
        </StepButton>
      </div>
      <div class="reader">
        {isListed && <Contents entries={contents} chapter={chapter} label={texts.chapters} onOpen={open} />}
        {isDamaged && <p class="reader-note">{texts.damaged}</p>}
        <main ref={page} class="reader-page" tabIndex={0} aria-label={title} />
      </div>
    </>
  )
}

/** How much of the page is above the view. */
function shareOf({ scrollTop, scrollHeight, clientHeight }: Element): number {
  const length = scrollHeight - clientHeight
  return length > 0 ? Math.min(1, Math.max(0, scrollTop / length)) : 0
}

interface StepButtonProps {
  readonly label: string
  readonly isDisabled: boolean
  readonly onStep: () => void
  readonly children: preact.ComponentChildren
}

function StepButton({ label, isDisabled, onStep, children }: StepButtonProps) {
  return (
    <button type="button" class="quiet icon" aria-label={label} title={label} disabled={isDisabled} onClick={onStep}>
      {children}
    </button>
  )
}

interface ContentsProps {
  readonly entries: readonly ContentsEntry[]
  /** That is shown. */
  readonly chapter: number
  readonly label: string
  readonly onOpen: (target: Target) => void
}

function Contents({ entries, chapter, label, onOpen }: ContentsProps) {
  const list = useRef<HTMLElement>(null)
  const current = entries.findLastIndex((entry) => entry.chapter <= chapter)
  useEffect(() => {
    const entry = list.current?.querySelectorAll('button')[Math.max(current, 0)]
    entry?.focus()
    entry?.scrollIntoView({ block: 'center' })
  }, [])
  return (
    <nav ref={list} class="reader-contents" aria-label={label}>
      {entries.map((entry, index) => (
        <button
          key={index}
          type="button"
          class="quiet"
          aria-current={index === current ? 'true' : undefined}
          style={{ paddingInlineStart: `${0.75 + entry.depth}rem` }}
          onClick={() => onOpen({ chapter: entry.chapter, fragment: entry.fragment })}
        >
          {entry.title}
        </button>
      ))}
    </nav>
  )
}
