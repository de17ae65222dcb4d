"""Where repairs run elsewhere: SQL, data frames, torch, ONNX, by the formula of `predict_proba`."""
