"""How well is one named column predicted?"""
