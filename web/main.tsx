/** The entry of the console. */
import { render } from 'preact'
import { App } from './app.tsx'
import { applyMainColor } from './components/main-color.ts'
import './styles/base.css'

applyMainColor()
const root = document.getElementById('console')
if (root) render(<App />, root)
import './styles/files.css'
