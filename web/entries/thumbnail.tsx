/** The thumbnail of a file, loaded when it comes into view; until then, and without one, the symbol of its kind. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { FileType } from '../api/schema.ts'
import { basePath, joined } from '../components/places.ts'
import { EntryIcon } from './entry-icon.tsx'
import type { Entry } from './folder.ts'
import { useSource, type Source } from './source.ts'
import { takeTurn } from './thumbnail-turns.ts'
import './thumbnail.css'

/** Images up to this size are their own thumbnail if the storage has none, in bytes. */
export const smallImage = 2 ** 20

/** `folder`: the folder of the entry. */
export function Thumbnail({ entry, folder }: { readonly entry: Entry; readonly folder: string }) {
  const source = useSource()
  const url = thumbnailUrl(entry) ?? smallImageUrl(entry, folder, source)
  if (url === undefined) return <EntryIcon entry={entry} size={64} />
  // Another file, or another content, begins anew; a new signature of the same does not.
  const { name, modified, size } = entry
  return <LazyPicture key={`${joined(folder, name)} ${modified} ${size}`} url={url} entry={entry} />
}

type State = 'waiting' | 'loading' | 'shown' | 'failed'

function LazyPicture({ url, entry }: { readonly url: string; readonly entry: Entry }) {
  const [source] = useState(url)
  const place = useRef<HTMLSpanElement>(null)
  const endTurn = useRef<() => void>()
  const [state, setState] = useState<State>('waiting')
  useEffect(() => {
    let isLoading = false
    const begin = () => {
      isLoading = true
      setState('loading')
    }
    const observer = new IntersectionObserver((changes) => {
      if (isLoading) return
      endTurn.current?.()
      endTurn.current = changes.at(-1)?.isIntersecting === true ? takeTurn(begin) : undefined
    })
    if (place.current) observer.observe(place.current)
    return () => {
      observer.disconnect()
      endTurn.current?.()
    }
  }, [])
  function settle(to: State): void {
    endTurn.current?.()
    setState(to)
  }
  return (
    <span ref={place} class="thumbnail">
      {state !== 'shown' && <EntryIcon entry={entry} size={64} />}
      {(state === 'loading' || state === 'shown') && (
        <img
          src={source}
          alt=""
          class={state === 'loading' ? 'unseen' : undefined}
          decoding="async"
          onLoad={() => settle('shown')}
          onError={() => settle('failed')}
        />
      )}
      {state === 'shown' && entry.type === FileType.video && (
        <span class="thumbnail-kind">
          <EntryIcon entry={entry} />
        </span>
      )}
    </span>
  )
}

/**
 * The URL of the thumbnail of a file; undefined if this server has none: others must not learn what is looked at.
 * `pixels`: what its longer side needs, 256 by default.
 */
export function thumbnailUrl(
  { thumb, modified, size, unreadable }: Pick<Entry, 'thumb' | 'modified' | 'size' | 'unreadable'>,
  pixels?: number,
): string | undefined {
  if (unreadable === true || thumb === '') return undefined
  const { pathname, search, searchParams } = new URL(thumb, document.baseURI)
  const isOurs = ['d', 'sd'].some((first) => pathname.startsWith(`${basePath}/${first}/`))
  if (!isOurs || searchParams.get('type') !== 'thumb') return undefined
  // The page shows a picture it has as long as its URL is the same.
  const content = `&v=${encodeURIComponent(`${modified} ${size}`)}`
  return `${pathname}${search}${pixels === undefined ? '' : `&size=${pixels}`}${content}`
}

function smallImageUrl({ name, sign, size, type, unreadable }: Entry, folder: string, source: Source) {
  if (unreadable === true || type !== FileType.image || size > smallImage) return undefined
  return source.previewUrl(joined(folder, name), sign)
}
