/** A PDF document, drawn by PDF.js page by page as they come into view. */
import { getDocument, GlobalWorkerOptions, type PDFDocumentProxy } from 'pdfjs-dist'
import workerFile from 'pdfjs-dist/build/pdf.worker.min.mjs?file'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Failure } from '../components/failure.tsx'
import { textsOf } from '../texts/texts.ts'
import './pdf-view.css'

const texts = textsOf('common', 'viewers')

GlobalWorkerOptions.workerSrc = new URL(workerFile, import.meta.url).href

interface PdfViewProps {
  readonly source: string
  readonly name: string
}

export default function PdfView({ source, name }: PdfViewProps) {
  const [pdf, setPdf] = useState<PDFDocumentProxy>()
  const [error, setError] = useState<unknown>()
  useEffect(() => {
    // Scripts of the document are never run: PDF.js has no part for them here, and compiles no functions.
    const loading = getDocument({ url: source, isEvalSupported: false, enableXfa: false })
    loading.promise.then(setPdf, setError)
    return () => void loading.destroy()
  }, [source])
  if (error !== undefined) return <Failure error={error} />
  if (pdf === undefined) return <p class="loading skeleton">{texts.loading}</p>
  return (
    <div class="pdf" tabIndex={0} role="region" aria-label={name}>
      {Array.from({ length: pdf.numPages }, (_, index) => (
        <PdfPage key={index} pdf={pdf} number={index + 1} />
      ))}
    </div>
  )
}

function PdfPage({ pdf, number }: { readonly pdf: PDFDocumentProxy; readonly number: number }) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const [error, setError] = useState<unknown>()
  useEffect(() => {
    const element = canvas.current
    if (!element) return
    let drawing: AbortController | undefined
    const observer = new IntersectionObserver(
      (entries) => {
        const isNear = entries.at(-1)?.isIntersecting === true
        if (isNear === (drawing !== undefined)) return
        drawing?.abort()
        drawing = isNear ? new AbortController() : undefined
        const signal = drawing?.signal
        if (signal) draw(pdf, number, element, signal).catch((reason: unknown) => signal.aborted || setError(reason))
      },
      { root: element.parentElement, rootMargin: '100%' },
    )
    observer.observe(element)
    return () => {
      observer.disconnect()
      drawing?.abort()
    }
  }, [pdf, number])
  if (error !== undefined) return <Failure error={error} />
  return <canvas ref={canvas} role="img" aria-label={texts.look.pdfPage(number)} width={612} height={792} />
}

/** Draws the page. When the signal aborts, its pixels are released, and its space stays. */
async function draw(
  pdf: PDFDocumentProxy,
  number: number,
  canvas: HTMLCanvasElement,
  signal: AbortSignal,
): Promise<void> {
  const page = await pdf.getPage(number)
  const canvasContext = canvas.getContext('2d')
  if (signal.aborted || !canvasContext) return
  const viewport = page.getViewport({ scale: 1.5 * devicePixelRatio })
  const { width, height } = viewport
  Object.assign(canvas, { width, height })
  Object.assign(canvas.style, { width: `${width}px`, aspectRatio: `${width} / ${height}` })
  const task = page.render({ canvasContext, viewport })
  signal.addEventListener('abort', () => {
    task.cancel()
    Object.assign(canvas, { width: 0, height: 0 })
  })
  await task.promise
}
