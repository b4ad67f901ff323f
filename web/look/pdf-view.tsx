/** A PDF document, drawn by PDF.js page by page as they come into view. */
import { getDocument, GlobalWorkerOptions, type PDFDocumentProxy } from 'pdfjs-dist'
import workerFile from 'pdfjs-dist/build/pdf.worker.min.mjs?file'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Failure } from '../parts/failure.tsx'
import { texts } from '../texts.ts'

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
  if (pdf === undefined) return <p class="loading">{texts.loading}</p>
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
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (entry?.isIntersecting !== true) return
        observer.disconnect()
        draw(pdf, number, element).catch(setError)
      },
      { rootMargin: '100%' },
    )
    observer.observe(element)
    return () => observer.disconnect()
  }, [pdf, number])
  if (error !== undefined) return <Failure error={error} />
  return <canvas ref={canvas} role="img" aria-label={texts.look.pdfPage(number)} width={612} height={792} />
}

async function draw(pdf: PDFDocumentProxy, number: number, canvas: HTMLCanvasElement): Promise<void> {
  const page = await pdf.getPage(number)
  const viewport = page.getViewport({ scale: 1.5 * devicePixelRatio })
  canvas.width = viewport.width
  canvas.height = viewport.height
  const canvasContext = canvas.getContext('2d')
  if (canvasContext) await page.render({ canvasContext, viewport }).promise
}
