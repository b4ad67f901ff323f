/** A picture, with the way to the pictures beside it: by buttons and the arrow keys. */
import { ChevronLeft, ChevronRight } from 'lucide-preact'
import { useLayoutEffect, useState } from 'preact/hooks'
import { Link, useLocation } from 'wouter-preact'
import { addressOf } from '../components/places.ts'
import { textsOf } from '../texts/texts.ts'
import { useNeighbours } from './neighbours.ts'
import './picture-view.css'

const texts = textsOf('viewers')

interface PictureViewProps {
  readonly path: string
  readonly source: string
  readonly name: string
}

export default function PictureView({ path, source, name }: PictureViewProps) {
  const { previous, next } = useNeighbours(path)
  const [failed, setFailed] = useState(false)
  useArrowKeys(previous, next)
  return (
    <div class="picture">
      {failed ? (
        <p class="loading">{texts.look.none}</p>
      ) : (
        <img class="shown" src={source} alt={name} onError={() => setFailed(true)} />
      )}
      {previous !== undefined && (
        <Link class="button icon previous" href={addressOf(previous)} replace aria-label={texts.look.previous}>
          <ChevronLeft aria-hidden size={24} />
        </Link>
      )}
      {next !== undefined && (
        <Link class="button icon next" href={addressOf(next)} replace aria-label={texts.look.next}>
          <ChevronRight aria-hidden size={24} />
        </Link>
      )}
    </div>
  )
}

/** The arrow keys lead to the neighbours, except in fields and dialogs, which use them themselves. */
function useArrowKeys(previous: string | undefined, next: string | undefined): void {
  const [, navigate] = useLocation()
  // With the links that are shown: after the paint, the first key could be lost.
  useLayoutEffect(() => {
    function onKeyDown({ key, target, altKey, ctrlKey, metaKey }: KeyboardEvent): void {
      if (altKey || ctrlKey || metaKey) return
      if (target instanceof Element && target.closest('input, select, textarea, dialog')) return
      const path = key === 'ArrowLeft' ? previous : key === 'ArrowRight' ? next : undefined
      if (path !== undefined) navigate(addressOf(path), { replace: true })
    }
    addEventListener('keydown', onKeyDown)
    return () => removeEventListener('keydown', onKeyDown)
  }, [previous, next, navigate])
}
