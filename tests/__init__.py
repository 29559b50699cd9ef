"""Tests of jscan's public interface; `engines.py` lists the implementations that they run on."""
