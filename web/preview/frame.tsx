/**
 * The program of a preview document. The document has an origin of its own and no network: the console hands it the
 * bytes of a file over a port, and it shows what is in them.
 */
import { render, type ComponentType } from 'preact'
import { PreviewFailure } from './failure.ts'
import type { Look, Order, Place, PreviewTexts, Report } from './messages.ts'
import '../styles/tokens.css'
import '../styles/base.css'
import '../styles/controls.css'
import '../styles/utilities.css'
import './frame.css'

export interface OpenedFile {
  readonly name: string
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly locale: string
  /** Where the reader was the last time. */
  readonly place: Place | undefined
  readonly report: (report: Report) => void
}

export interface Shown {
  /** Renders the file, in the language of the texts. */
  readonly View: ComponentType<{ readonly texts: PreviewTexts }>
  readonly isCut?: boolean
}

/** Shows what `read` makes of the file that the console opens. It rejects with a `PreviewFailure`. */
export function startPreview(read: (file: OpenedFile) => Promise<Shown>): void {
  addEventListener('message', function onMessage({ source, ports: [port] }) {
    if (source !== parent || !port) return
    removeEventListener('message', onMessage)
    serve(port, read)
  })
}

function serve(port: MessagePort, read: (file: OpenedFile) => Promise<Shown>): void {
  const report = (sent: Report) => port.postMessage(sent)
  let shown: Shown | undefined
  let look: Look | undefined

  function show(): void {
    if (look === undefined) return
    applyLook(look)
    const root = document.getElementById('preview')
    if (shown && root) render(<shown.View texts={look.texts} />, root)
  }

  async function open(order: Extract<Order, { readonly kind: 'open' }>): Promise<void> {
    const { name, bytes, place } = order
    look = order.look
    applyLook(look)
    document.title = name
    try {
      shown = await read({ name, bytes: new Uint8Array(bytes), locale: look.locale, place, report })
      show()
      report({ kind: 'shown', isCut: shown.isCut === true })
    } catch (error) {
      report({ kind: 'failed', reason: error instanceof PreviewFailure ? error.reason : 'damaged' })
    }
  }

  port.onmessage = ({ data }: MessageEvent<Order>) => {
    if (data.kind === 'open') void open(data)
    else if (data.kind === 'ping') report({ kind: 'alive' })
    else {
      look = data.look
      show()
    }
  }
  watchLinks(report)
}

function applyLook({ scheme, accent, locale }: Look): void {
  const { documentElement: root } = document
  root.dataset.scheme = scheme
  root.style.setProperty('--accent', accent)
  root.lang = locale
}

/** Follows links of the file: those to other sites are opened by the console, if the user agrees. */
function watchLinks(report: (report: Report) => void): void {
  function follow(event: Event): void {
    const link = event.target instanceof Element ? event.target.closest('a[role=link]') : null
    if (!link) return
    event.preventDefault()
    const address = link.getAttribute('data-address')
    if (address !== null) report({ kind: 'link', address })
    else {
      const target = link.getAttribute('data-target') ?? ''
      link.dispatchEvent(new CustomEvent('target', { bubbles: true, detail: target }))
    }
  }
  addEventListener('click', follow)
  addEventListener('keydown', (event) => {
    if (event.key === 'Enter') follow(event)
  })
}

/** Brings the element with this id, which a link within the file names, into view. */
export function scrollToTarget(root: Element | null, id: string): void {
  root?.querySelector(`[id="${CSS.escape(id)}"], [name="${CSS.escape(id)}"]`)?.scrollIntoView()
}
