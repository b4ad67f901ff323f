/** A workbook of Excel: the values of its sheets. */
import { useEffect, useState } from 'preact/hooks'
import type { PreviewTexts } from './messages.ts'
import { startPreview, type OpenedFile } from './frame.tsx'
import { Table } from './table.tsx'
import { Workbook, type SheetContent } from './workbook.ts'
import { Zip } from './zip.ts'
import './xlsx.css'

startPreview(async ({ bytes, locale, report }) => {
  const workbook = await Workbook.open(new Zip(bytes), locale)
  const [firstSheet] = workbook.sheets
  const first = firstSheet && (await workbook.read(firstSheet))
  const View = ({ texts }: { readonly texts: PreviewTexts }) => (
    <WorkbookView workbook={workbook} first={first} texts={texts} report={report} />
  )
  return { View, isCut: first?.isCut === true }
})

interface WorkbookViewProps {
  readonly workbook: Workbook
  readonly first: SheetContent | undefined
  readonly texts: PreviewTexts
  readonly report: OpenedFile['report']
}

function WorkbookView({ workbook, first, texts, report }: WorkbookViewProps) {
  const { sheets } = workbook
  const [index, setIndex] = useState(0)
  const [content, setContent] = useState<SheetContent | 'damaged' | undefined>(first)
  const sheet = sheets[index]

  useEffect(() => {
    if (index === 0 && content === first) return
    const left = new AbortController()
    setContent(undefined)
    void (async () => {
      const read = sheet && (await workbook.read(sheet).catch(() => 'damaged' as const))
      if (left.signal.aborted || read === undefined) return
      setContent(read)
      report({ kind: 'shown', isCut: read !== 'damaged' && read.isCut })
    })()
    return () => left.abort()
  }, [index])

  function onKeyDown(event: KeyboardEvent): void {
    const steps: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1 }
    const step = steps[event.key]
    if (step === undefined) return
    const next = (index + step + sheets.length) % sheets.length
    setIndex(next)
    document.getElementById(`sheet-${next}`)?.focus()
  }

  return (
    <>
      <div class="sheet" id="sheet" role="tabpanel" aria-labelledby={`sheet-${index}`}>
        {content === undefined ? null : content === 'damaged' ? (
          <p class="sheet-note">{texts.damaged}</p>
        ) : content.rows.length === 0 ? (
          <p class="sheet-note">{texts.empty}</p>
        ) : (
          <Table label={sheet?.name ?? ''} cellLabel={texts.cell} content={content} />
        )}
      </div>
      <div class="sheets" role="tablist" aria-label={texts.sheets} onKeyDown={onKeyDown}>
        {sheets.map(({ name, path }, each) => (
          <button
            key={path}
            id={`sheet-${each}`}
            type="button"
            role="tab"
            aria-selected={each === index}
            aria-controls="sheet"
            tabIndex={each === index ? 0 : -1}
            class="quiet"
            onClick={() => setIndex(each)}
          >
            {name}
          </button>
        ))}
      </div>
    </>
  )
}
