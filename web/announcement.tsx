/** The announcement of the administrator, above every page until it is closed. */
import { useQuery } from '@tanstack/preact-query'
import { X } from 'lucide-preact'
import { useState } from 'preact/hooks'
import { publicSettings } from './api/queries.ts'
import { Notes } from './viewers/notes.tsx'
import { textsOf } from './texts/texts.ts'
import './announcement.css'

const texts = textsOf('common')

export function Announcement() {
  const { data: settings } = useQuery(publicSettings)
  const [closed, setClosed] = useState('')
  const text = settings?.announcement ?? ''
  if (text.trim() === '' || text === closed) return null
  return (
    <aside class="announcement" aria-label={texts.announcement}>
      <Notes text={text} path="/" />
      <button type="button" class="quiet icon" aria-label={texts.closeAnnouncement} onClick={() => setClosed(text)}>
        <X aria-hidden size={16} />
      </button>
    </aside>
  )
}
